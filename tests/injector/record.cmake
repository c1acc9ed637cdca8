# SPDX-License-Identifier: Apache-2.0
# The record side: pure parts by unit tests, the library as the driver sees it by its symbols.
foreach(name schedule governor spending pace launches steps coalesce activity buffers coexist windows identity exporter_spawn)
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
add_test(NAME test_injector_host COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/test_host.py
    --injector $<TARGET_FILE:collscope_library> --fakes ${CMAKE_BINARY_DIR}/tests/fakes --reader $<TARGET_FILE:read_segments>)
set_tests_properties(test_injector_host PROPERTIES TIMEOUT 600)
add_executable(read_segments read_segments.c)
target_link_libraries(read_segments PRIVATE cs_reader)
cs_target(read_segments)
