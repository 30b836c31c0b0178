# g++ from 12 on and clang from 16 on. Where nobody chose one and the machine's own is older (Ubuntu 22.04: 11), a newer
# g++ beside it is taken.
if(NOT CMAKE_CXX_COMPILER AND "$ENV{CXX}" STREQUAL "")
  execute_process(COMMAND c++ -dumpversion OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND version VERSION_LESS 12)
    find_program(TPUBRIDGE_NEWER_CXX NAMES g++-14 g++-13 g++-12)
    if(TPUBRIDGE_NEWER_CXX)
      set(CMAKE_CXX_COMPILER ${TPUBRIDGE_NEWER_CXX})
    endif()
  endif()
endif()

# In words, rather than by the errors of a thousand lines.
function(tpubridge_check_compiler)
  set(GNU 12)
  set(Clang 16)
  set(oldest "${${CMAKE_CXX_COMPILER_ID}}")
  if(oldest AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is version ${CMAKE_CXX_COMPILER_VERSION}: tpubridge needs g++ 12 or clang 16, "
      "or newer. Name another by -DCMAKE_CXX_COMPILER=g++-12.")
  endif()
endfunction()
