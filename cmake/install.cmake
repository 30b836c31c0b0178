# `cmake --install` gives a package for find_package(tpubridge): the libraries, their public headers, the
# command, and the embedded CPU plugin beside the library, where discovery looks first.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tpubridge)

set_target_properties(tpubridge_core PROPERTIES EXPORT_NAME core)
install(TARGETS tpubridge_core EXPORT tpubridge-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tpubridge-targets NAMESPACE tpubridge:: DESTINATION ${package_dir})
# What includes the C API or holds another part's inside is not public.
install(DIRECTORY tpubridge DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "capi/call.h" EXCLUDE PATTERN "capi/client_options.h" EXCLUDE PATTERN "capi/convert.h" EXCLUDE
  PATTERN "plugin/host_cpu.h" EXCLUDE PATTERN "plugin/library.h" EXCLUDE PATTERN "plugin/load_check.h" EXCLUDE
  PATTERN "pjrt/client_core.h" EXCLUDE
  PATTERN "train/loss_log.h" EXCLUDE PATTERN "train/metrics_log.h" EXCLUDE PATTERN "train/nan_finder.h" EXCLUDE
  PATTERN "train/optimizer_state.h" EXCLUDE PATTERN "train/signals.h" EXCLUDE PATTERN "train/step_runner.h" EXCLUDE
  PATTERN "train/trainer_impl.h" EXCLUDE
  PATTERN "aot/protocol.h" EXCLUDE PATTERN "aot/overflow.h" EXCLUDE
  PATTERN "export/refuse.h" EXCLUDE PATTERN "config/fields.h" EXCLUDE PATTERN "backend/prepared.h" EXCLUDE)
install(FILES ${TPUBRIDGE_CPU_PLUGIN} DESTINATION ${CMAKE_INSTALL_LIBDIR}/tpubridge)
install(TARGETS tpubridge RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET tpubridge-aot)
  get_target_property(kind tpubridge-aot TYPE)
  if(kind STREQUAL "EXECUTABLE")
    install(TARGETS tpubridge-aot RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  else()  # cross-compiled by a project of its own
    install(PROGRAMS ${CMAKE_BINARY_DIR}/bin/tpubridge-aot DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  if(libtpu)  # the link that the build has; a package leaves it out
    install(FILES ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tpubridge/libtpu.so DESTINATION ${CMAKE_INSTALL_LIBDIR}/tpubridge)
  endif()
endif()

if(TPUBRIDGE_TORCH)
  # The device: its own export, so that a project without torch still finds tpubridge::core.
  set_target_properties(tpubridge_tpubridge PROPERTIES EXPORT_NAME tpubridge)
  install(TARGETS tpubridge_tpubridge EXPORT tpubridge-device-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT tpubridge-device-targets NAMESPACE tpubridge:: DESTINATION ${package_dir})
  install(TARGETS tpubridge-train tpubridge-demo tpubridge-bench tpubridge-generate tpubridge-model tpubridge-compile tpubridge-plan RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES cmake/torch-targets.cmake DESTINATION ${package_dir} RENAME tpubridge-torch.cmake)
endif()
# The same with the torch of this machine, and for a package without.
set(torch_built_for "${TPUBRIDGE_TORCH_HOME}")
configure_file(cmake/config.cmake.in ${CMAKE_BINARY_DIR}/tpubridge-config.cmake @ONLY)
set(torch_built_for "")
configure_file(cmake/config.cmake.in ${CMAKE_BINARY_DIR}/package/tpubridge-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tpubridge-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tpubridge-config.cmake ${CMAKE_BINARY_DIR}/tpubridge-config-version.cmake
  DESTINATION ${package_dir})
include(cmake/pack.cmake)
