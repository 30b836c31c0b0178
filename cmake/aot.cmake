# tpubridge-aot, the child process that loads libtpu. libtpu is an x86_64 library: on x86_64 the child is an
# ordinary program of this build, elsewhere it is cross-compiled and runs under qemu.
set(TPUBRIDGE_AOT AUTO CACHE STRING "Build tpubridge-aot: AUTO (where it can run), ON or OFF")
set_property(CACHE TPUBRIDGE_AOT PROPERTY STRINGS AUTO ON OFF)

tpubridge_wheel(libtpu_wheel libtpu x86_64)
set(libtpu "")
if(libtpu_wheel)
  set(libtpu ${libtpu_wheel}/libtpu/libtpu.so)
endif()
tpubridge_beside_library(libtpu.so "${libtpu}")

set(aot_child ${PROJECT_SOURCE_DIR}/tpubridge/aot/child)
if(TPUBRIDGE_AOT STREQUAL "OFF")
  return()
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  add_subdirectory(${aot_child} aot_child)
  return()
endif()

find_program(TPUBRIDGE_AOT_CXX x86_64-linux-gnu-g++)
find_program(TPUBRIDGE_AOT_QEMU qemu-x86_64-static)
if(NOT TPUBRIDGE_AOT_CXX OR NOT TPUBRIDGE_AOT_QEMU)
  if(TPUBRIDGE_AOT STREQUAL "ON")
    message(FATAL_ERROR "tpubridge-aot needs x86_64-linux-gnu-g++ and qemu-x86_64-static: make aot installs them.")
  endif()
  message(STATUS "tpubridge-aot is left out: no x86_64-linux-gnu-g++ or qemu-x86_64-static (make aot)")
  return()
endif()
include(ExternalProject)
ExternalProject_Add(tpubridge-aot
  SOURCE_DIR ${aot_child}
  BINARY_DIR ${CMAKE_BINARY_DIR}/aot_child
  CMAKE_ARGS -DCMAKE_TOOLCHAIN_FILE=${PROJECT_SOURCE_DIR}/cmake/x86_64-linux-gnu.cmake
             -DCMAKE_CXX_COMPILER=${TPUBRIDGE_AOT_CXX} -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
             -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${CMAKE_BINARY_DIR}/bin -DPJRT_INCLUDE=${cpu_wheel}/xla_plugins/xla_cpu_pjrt/include
  BUILD_ALWAYS ON
  BUILD_BYPRODUCTS ${CMAKE_BINARY_DIR}/bin/tpubridge-aot
  INSTALL_COMMAND "")
