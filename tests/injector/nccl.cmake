# SPDX-License-Identifier: Apache-2.0
# What NCCL and NVTX tell. The sources are compiled in, with a double for the instance.
set(CS_INJECTOR_DIR ${CMAKE_SOURCE_DIR}/injector)
file(GLOB CS_NCCL_SOURCES CONFIGURE_DEPENDS ${CS_INJECTOR_DIR}/nccl/*.c ${CS_INJECTOR_DIR}/nvtx/*.c)
set(CS_NCCL_TEST_SOURCES instance_double.c ${CS_NCCL_SOURCES} ${CS_INJECTOR_DIR}/labels/announce.c ${CS_INJECTOR_DIR}/life/thread_slot.c
    ${CS_INJECTOR_DIR}/life/library.c
    ${CS_INJECTOR_DIR}/life/thread.c)
foreach(name announce nccl_profiler nvtx)
    cs_unit_test(test_${name} SOURCES test_${name}.c ${CS_NCCL_TEST_SOURCES} LIBS cs_reader cs::cuda_headers ${CMAKE_DL_LIBS})
    target_include_directories(test_${name} PRIVATE ${CS_INJECTOR_DIR})
endforeach()
target_link_options(test_announce PRIVATE -Wl,--wrap=cs_thread_slot_claim)
target_link_options(test_nvtx PRIVATE -Wl,--wrap=syscall)

# A plugin and a tool that were there before us.
add_library(chained_tools MODULE chained_tools.c)
target_include_directories(chained_tools PRIVATE ${CS_INJECTOR_DIR})
target_link_libraries(chained_tools PRIVATE cs::cuda_headers)
cs_target(chained_tools)
cs_unit_test(test_chained SOURCES test_chained.c ${CS_NCCL_TEST_SOURCES} LIBS cs_reader cs::cuda_headers ${CMAKE_DL_LIBS})
target_include_directories(test_chained PRIVATE ${CS_INJECTOR_DIR})
target_compile_definitions(test_chained PRIVATE CS_CHAINED_TOOLS="$<TARGET_FILE:chained_tools>")
add_dependencies(test_chained chained_tools)

add_library(nccl_library MODULE nccl_library.c)
set_target_properties(nccl_library PROPERTIES PREFIX "" OUTPUT_NAME libnccl SUFFIX .so.2)
cs_target(nccl_library)
cs_unit_test(test_nccl_version SOURCES test_nccl_version.c ${CS_NCCL_TEST_SOURCES} LIBS cs_reader cs::cuda_headers ${CMAKE_DL_LIBS})
target_include_directories(test_nccl_version PRIVATE ${CS_INJECTOR_DIR})
target_compile_definitions(test_nccl_version PRIVATE CS_NCCL_LIBRARY="$<TARGET_FILE:nccl_library>")
add_dependencies(test_nccl_version nccl_library)

# Profiler plugins of every interface version, one by one, and one that has two.
foreach(versions 1 2 3 4 5 6 7 24)
    add_library(chained_plugin_${versions} MODULE chained_plugin.c)
    target_include_directories(chained_plugin_${versions} PRIVATE ${CS_INJECTOR_DIR})
    string(REGEX REPLACE "([0-9])" "CHAINED_V\\1;" definitions ${versions})
    target_compile_definitions(chained_plugin_${versions} PRIVATE ${definitions})
    cs_target(chained_plugin_${versions})
    list(APPEND CS_CHAINED_PLUGINS chained_plugin_${versions})
endforeach()
foreach(name chain translate)
    cs_unit_test(test_nccl_${name} SOURCES test_nccl_${name}.c chain_world.c ${CS_NCCL_TEST_SOURCES}
        LIBS cs_reader cs::cuda_headers ${CMAKE_DL_LIBS})
    target_include_directories(test_nccl_${name} PRIVATE ${CS_INJECTOR_DIR})
    target_compile_definitions(test_nccl_${name} PRIVATE CS_CHAINED_PLUGINS="$<TARGET_FILE_DIR:chained_plugin_5>")
    add_dependencies(test_nccl_${name} ${CS_CHAINED_PLUGINS})
endforeach()
