# Run by cpack on the tree that it is about to pack: takes out what is of the machine that built it, and into a tarball
# brings the libraries that another machine may not have.
set(root ${CPACK_TEMPORARY_DIRECTORY})
if(CPACK_GENERATOR STREQUAL "DEB")
  string(APPEND root /usr)  # cpack's own choice
endif()
file(GLOB config ${root}/lib*/cmake/tpubridge/tpubridge-config.cmake)
if(NOT config)
  message(FATAL_ERROR "There is no installed tpubridge in ${root}")
endif()
cmake_path(GET config PARENT_PATH folder)
cmake_path(SET lib NORMALIZE ${folder}/../..)
file(COPY_FILE ${CPACK_TPUBRIDGE_CONFIG} ${config})
file(REMOVE ${lib}/tpubridge/libtpu.so)  # a link into the builder's folders

# Of where a file looks for libraries only what lies beside it stays. CMake wrote those first, so that the rest is cut off.
file(GLOB programs ${root}/bin/*)
file(GLOB libraries ${lib}/*.so.*)
foreach(file ${programs} ${libraries})
  if(IS_SYMLINK ${file})
    continue()
  endif()
  execute_process(COMMAND readelf -d -W ${file} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  if(NOT dynamic MATCHES "\\(R(UN)?PATH\\)[^\n]*\\[([^\n]*)\\]")
    continue()
  endif()
  set(old "${CMAKE_MATCH_2}")
  string(REPLACE ":" ";" kept "${old}")
  list(FILTER kept INCLUDE REGEX "^\\$ORIGIN(/|$)")
  list(JOIN kept ":" new)
  if(NOT old STREQUAL new)
    file(RPATH_CHANGE FILE ${file} OLD_RPATH "${old}" NEW_RPATH "${new}")
  endif()
endforeach()

set(doc ${root}/share/doc/tpubridge)
file(MAKE_DIRECTORY ${doc})
file(COPY_FILE ${CPACK_TPUBRIDGE_COPYRIGHT} ${doc}/copyright)

# One page of the manual for all programs, as small as gzip makes it and without the time.
cmake_path(GET CPACK_TPUBRIDGE_COPYRIGHT PARENT_PATH texts)
function(zip_text from to)
  execute_process(COMMAND gzip -9 -n -c ${from} OUTPUT_FILE ${to} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
set(manual ${root}/share/man/man1)
file(MAKE_DIRECTORY ${manual})
zip_text(${texts}/tpubridge.1 ${manual}/tpubridge.1.gz)
foreach(file ${programs})
  cmake_path(GET file FILENAME name)
  if(NOT name STREQUAL "tpubridge")
    file(CREATE_LINK tpubridge.1.gz ${manual}/${name}.1.gz SYMBOLIC)
  endif()
endforeach()
if(CPACK_GENERATOR STREQUAL "DEB")
  zip_text(${texts}/changelog ${doc}/changelog.gz)
  return()  # its Depends bring the libraries
endif()

file(COPY_FILE /usr/share/common-licenses/Apache-2.0 ${doc}/Apache-2.0)
# glibc and the compiler's own libraries are every machine's, libtorch the user's.
list(FILTER programs EXCLUDE REGEX "tpubridge-aot$")  # of another machine's kind where that is not x86_64
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs} LIBRARIES ${libraries}
  RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^lib(torch|c10|tpubridge)" "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s|atomic)\\.so")
if(missing)
  message(FATAL_ERROR "These libraries were not found: ${missing}")
endif()
foreach(file ${found})
  cmake_path(GET file FILENAME name)
  file(REAL_PATH ${file} real)
  file(COPY_FILE ${real} ${lib}/${name})
  # Debian knows a file by the path that the package has, which may be /lib for /usr/lib.
  execute_process(COMMAND dpkg-query -S "*/${name}" OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX REPLACE "[:,].*" "" package "${owner}")
  if(NOT EXISTS /usr/share/doc/${package}/copyright)
    message(FATAL_ERROR "No licence of ${file} was found: it cannot be given away")
  endif()
  file(COPY_FILE /usr/share/doc/${package}/copyright ${doc}/${name}.copyright)
  message(STATUS "from this machine: ${name} (${package})")
endforeach()
