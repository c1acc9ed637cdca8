# SPDX-License-Identifier: Apache-2.0
# The record side: pure parts by unit tests, the library as the driver sees it by its symbols.
foreach(name schedule governor spending worker_sampling worker_shed worker_times pace launches steps coalesce activity delivery buffers coexist timebase windows identity exporter_spawn)
    cs_unit_test(test_${name} SOURCES test_${name}.c LIBS cs_injector cs_reader)
endforeach()
set_tests_properties(test_buffers test_steps PROPERTIES LABELS threads)
cs_unit_test(test_secure SOURCES test_secure.c LIBS cs_injector)
target_link_options(test_secure PRIVATE -Wl,--wrap=getauxval)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME test_injector_symbols COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/test_symbols.py
    $<TARGET_FILE:collscope_library> ${CMAKE_SOURCE_DIR}/injector/collscope.map)
if(CS_SANITIZE)
    set_tests_properties(test_injector_symbols PROPERTIES DISABLED ON) # sanitizers bring libraries of their own
endif()

# The whole library in real processes, on the fake driver.
add_test(NAME test_injector_host COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/test_host.py
    --injector $<TARGET_FILE:collscope_library> --fakes ${CMAKE_BINARY_DIR}/tests/fakes --reader $<TARGET_FILE:read_segments>)
set_tests_properties(test_injector_host PROPERTIES TIMEOUT 600 COST 35)
add_executable(read_segments read_segments.c)
target_link_libraries(read_segments PRIVATE cs_reader)
cs_target(read_segments)

# Libraries with the needs and names that give a tool away.
foreach(pair other_tool:. torch_cpu:. ToolsInjection64:nsight-systems)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 folder)
    add_library(fake_${name} SHARED fake_tool.c)
    target_link_libraries(fake_${name} PRIVATE cs_fake_cupti13 cs::cuda_headers)
    set_target_properties(fake_${name} PROPERTIES OUTPUT_NAME ${name}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/tools/${folder})
    cs_target(fake_${name})
endforeach()
cs_unit_test(test_suspects SOURCES test_suspects.c LIBS cs_injector)
target_compile_definitions(test_suspects PRIVATE CS_TEST_OTHER="$<TARGET_FILE:fake_other_tool>"
    CS_TEST_TORCH="$<TARGET_FILE:fake_torch_cpu>" CS_TEST_NSIGHT="$<TARGET_FILE:fake_ToolsInjection64>")
add_dependencies(test_suspects fake_other_tool fake_torch_cpu fake_ToolsInjection64)
