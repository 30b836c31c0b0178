# `make tarball` and `make deb`: what `cmake --install` puts into a folder, less what is of this machine alone
# (cmake/pack-tree.cmake). See docs/install.md.
set(CPACK_PACKAGE_NAME tpubridge)
set(CPACK_PACKAGE_VENDOR "tpubridge")
set(CPACK_PACKAGE_CONTACT "The tpubridge maintainers <maintainers@tpubridge.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "PyTorch's C++ API on TPUs by StableHLO and PJRT")
string(CONCAT CPACK_PACKAGE_DESCRIPTION
  "Runs StableHLO and libtorch programs on TPUs, GPUs and CPUs through XLA and\n"
  "the PJRT C API, without Python: a command, libraries with their headers, and\n"
  "XLA's CPU plugin.\n.\n"
  "What is linked to libtorch (tpubridge train, generate, compile, demo and bench,\n"
  "libtpubridge.so)\n"
  "needs a torch wheel, linked to as /usr/lib/tpubridge/torch.")
set(CPACK_PACKAGE_FILE_NAME tpubridge-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/pack-tree.cmake)
set(CPACK_TPUBRIDGE_CONFIG ${CMAKE_BINARY_DIR}/package/tpubridge-config.cmake)
set(CPACK_TPUBRIDGE_COPYRIGHT ${PROJECT_SOURCE_DIR}/setup/package/copyright)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TPUBRIDGE_TORCH_RPATH})  # no package has libtorch
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/setup/package/shlibs ${PROJECT_SOURCE_DIR}/setup/package/triggers)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-pip")
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)  # the plugin is 250 MiB, which xz takes minutes for
include(CPack)
