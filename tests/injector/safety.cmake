# SPDX-License-Identifier: Apache-2.0
# What keeps the host whole.
cs_unit_test(test_room SOURCES test_room.c LIBS cs_injector cs_reader)
cs_unit_test(test_growth SOURCES test_growth.c LIBS cs_injector)
cs_unit_test(test_flat SOURCES test_flat.c LIBS cs_injector cs_reader)
if(CS_SANITIZE) # a sanitizer takes fifty times as long, and has memory of its own that grows
    target_compile_definitions(test_flat PRIVATE CS_TEST_MILLIONS=2)
endif()
set_tests_properties(test_flat PROPERTIES TIMEOUT 300)
cs_unit_test(test_sleep SOURCES test_sleep.c LIBS cs_injector)
cs_unit_test(test_library SOURCES test_library.c LIBS cs_injector)
