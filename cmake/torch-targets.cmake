# torch::torch_cpu and torch::c10 of the torch package folder TPUBRIDGE_TORCH_HOME. Used by this build, and
# installed for the projects that find_package(tpubridge).
foreach(lib c10 torch_cpu)
  if(NOT TARGET torch::${lib})
    add_library(torch::${lib} SHARED IMPORTED GLOBAL)
    set_target_properties(torch::${lib} PROPERTIES IMPORTED_LOCATION ${TPUBRIDGE_TORCH_HOME}/lib/lib${lib}.so)
    target_include_directories(torch::${lib} SYSTEM INTERFACE
      ${TPUBRIDGE_TORCH_HOME}/include ${TPUBRIDGE_TORCH_HOME}/include/torch/csrc/api/include)
  endif()
endforeach()
target_link_libraries(torch::torch_cpu INTERFACE torch::c10)
# What libtorch_cpu itself needs (CUDA's runtime in the wheels of both machines) is found at link time by rpath-link.
foreach(folder ${TPUBRIDGE_TORCH_RPATH})
  target_link_options(torch::torch_cpu INTERFACE "LINKER:-rpath-link,${folder}")
endforeach()
