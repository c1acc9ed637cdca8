# SPDX-License-Identifier: Apache-2.0
# The label side alone: its sources, a CUPTI and driver of function pointers (labels_world.c), the real catalogue and segment.
file(GLOB CS_LABEL_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/injector/labels/*.c)
list(APPEND CS_LABEL_SOURCES ${CMAKE_SOURCE_DIR}/injector/life/thread_slot.c)
add_library(cs_labels_only STATIC ${CS_LABEL_SOURCES} labels_world.c)
target_include_directories(cs_labels_only PUBLIC ${CMAKE_SOURCE_DIR}/injector ${CMAKE_SOURCE_DIR}/injector/labels
    ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(cs_labels_only SYSTEM PUBLIC ${CS_CMOCKA_INCLUDE_DIR})
target_link_libraries(cs_labels_only PUBLIC cs_reader cs::cuda_headers Threads::Threads)
cs_target(cs_labels_only)

cs_unit_test(test_ledger SOURCES test_ledger.c LIBS cs_labels_only)
cs_unit_test(test_labels SOURCES test_labels.c LIBS cs_labels_only)
cs_unit_test(test_labels_graph SOURCES test_labels_graph.c LIBS cs_labels_only)
cs_unit_test(test_labels_nccl SOURCES test_labels_nccl.c LIBS cs_labels_only)
cs_unit_test(test_labels_told SOURCES test_labels_told.c LIBS cs_labels_only)
cs_unit_test(test_labels_tell SOURCES test_labels_tell.c LIBS cs_labels_only)
cs_unit_test(test_labels_threads SOURCES test_labels_threads.c LIBS cs_labels_only)
set_tests_properties(test_ledger test_labels_told test_labels_threads PROPERTIES LABELS threads)
# What the callbacks must not do is counted at the linker: calls of malloc and its kin from our objects.
cs_unit_test(test_labels_host SOURCES test_labels_host.c LIBS cs_labels_only)
target_link_options(test_labels_host PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free)
