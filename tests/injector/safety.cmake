# SPDX-License-Identifier: Apache-2.0
# What keeps the host whole.
foreach(name room)
    cs_unit_test(test_${name} SOURCES test_${name}.c LIBS cs_injector cs_reader)
endforeach()
