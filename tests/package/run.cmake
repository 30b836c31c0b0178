# Installs into an empty folder, builds the consumer against it and runs it.
function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
set(work ${BUILD_DIR}/package-test)
file(REMOVE_RECURSE ${work})
step(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/root)
step(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${work}/consumer -G Ninja -DCMAKE_PREFIX_PATH=${work}/root
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${FLAGS})
step(${CMAKE_COMMAND} --build ${work}/consumer)
step(${work}/consumer/consumer)
file(REMOVE_RECURSE ${work})
