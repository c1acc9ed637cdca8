# SPDX-License-Identifier: Apache-2.0
# The host-safety matrix, and the library at full rate in one process, which the sanitizers' stages of the gate run too.
add_executable(refuse programs/refuse.c)
set_target_properties(refuse PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/programs)
cs_target(refuse)
add_library(clock_step SHARED programs/clock_step.c)
target_link_libraries(clock_step PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(clock_step PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/programs)
cs_target(clock_step)

foreach(test matrix rate)
    add_test(NAME e2e_${test} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/test_${test}.py)
    set_tests_properties(e2e_${test} PROPERTIES TIMEOUT 600 ENVIRONMENT
        "CS_FAKE_DIR=$<TARGET_FILE_DIR:scenario_rank>;CS_INJECTOR=$<TARGET_FILE:collscope_library>;CS_EXPORTER=$<TARGET_FILE:collscope-exporter>;CS_COMMAND=$<TARGET_FILE:collscope>;CS_SANITIZE=${CS_SANITIZE};CS_E2E_PROGRAMS=${CMAKE_CURRENT_BINARY_DIR}/programs")
endforeach()
set_tests_properties(e2e_rate PROPERTIES LABELS threads)
