# Finds what setup/deps brought. Every wheel has a folder of its own, named as in setup/wheels.txt.
set(TPUBRIDGE_DEPS "$ENV{TPUBRIDGE_DEPS}" CACHE PATH "Folder that setup/deps fills")
if(NOT TPUBRIDGE_DEPS)
  set(TPUBRIDGE_DEPS ${PROJECT_SOURCE_DIR}/.deps CACHE PATH "" FORCE)
endif()

# tpubridge_wheel(VAR package machine): the folder of a pinned wheel, empty where it was not fetched.
function(tpubridge_wheel var package machine)
  file(STRINGS ${PROJECT_SOURCE_DIR}/setup/wheels.txt row REGEX "^[a-z]+ +${package} +[^ ]+ +${machine} ")
  string(REGEX REPLACE "^[a-z]+ +[^ ]+ +([^ ]+) .*" "\\1" version "${row}")
  set(home ${TPUBRIDGE_DEPS}/${package}-${version}-${machine})
  if(NOT EXISTS ${home}/.sha256)
    set(home "")
  endif()
  set(${var} "${home}" PARENT_SCOPE)
endfunction()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/setup/wheels.txt)
tpubridge_wheel(cpu_wheel xla-cpu-pjrt ${CMAKE_SYSTEM_PROCESSOR})
if(NOT cpu_wheel)
  message(FATAL_ERROR "The XLA CPU plugin is not in ${TPUBRIDGE_DEPS}: run setup/deps (make does it by itself).")
endif()
file(REAL_PATH ${cpu_wheel}/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so TPUBRIDGE_CPU_PLUGIN)

# What the library finds beside itself is laid out in the build as where it is installed, so that no path of this machine
# is written into it. An empty target takes the link away.
function(tpubridge_beside_library name target)
  set(link ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tpubridge/${name})
  file(REMOVE ${link})
  if(target)
    file(MAKE_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tpubridge)
    file(CREATE_LINK ${target} ${link} SYMBOLIC)
  endif()
endfunction()
tpubridge_beside_library(xla_cpu_pjrt.so ${TPUBRIDGE_CPU_PLUGIN})

add_library(pjrt_c_api INTERFACE)
target_include_directories(pjrt_c_api SYSTEM INTERFACE ${cpu_wheel}/xla_plugins/xla_cpu_pjrt/include)
# The C header names a member after its own type, which g++ takes only so; in our code it is a warning, and an error in CI.
target_compile_options(pjrt_c_api INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpermissive>)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
