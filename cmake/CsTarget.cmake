# SPDX-License-Identifier: Apache-2.0
# cs_target(NAME): the warnings, hardening and sanitizers that every target of the project has. PRIVATE: users of a library
# do not inherit them.
include(CheckCCompilerFlag)

set(CS_WARNING_FLAGS
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wold-style-definition -Wmissing-prototypes -Wmissing-declarations
    -Wpointer-arith -Wwrite-strings -Wcast-qual -Wformat=2 -Wundef -Wvla -Wnull-dereference -Wimplicit-fallthrough
    -Wduplicated-branches -Wduplicated-cond -Wlogical-op -Wjump-misses-init -Wsuggest-attribute=format)
set(CS_HARDENING_FLAGS -fstack-protector-strong -fstack-clash-protection -fno-common)
set(CS_ACCEPTED_FLAGS "")
foreach(flag IN LISTS CS_WARNING_FLAGS CS_HARDENING_FLAGS)
    string(MAKE_C_IDENTIFIER "CS_HAS${flag}" variable)
    check_c_compiler_flag("-Werror ${flag}" ${variable})
    if(${variable})
        list(APPEND CS_ACCEPTED_FLAGS ${flag})
    endif()
endforeach()

function(cs_target name)
    target_compile_options(${name} PRIVATE ${CS_ACCEPTED_FLAGS} -fvisibility=hidden
        "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE CS_VERSION="${PROJECT_VERSION}")
    if(CS_WERROR)
        target_compile_options(${name} PRIVATE -Werror)
    endif()
    if(CS_SANITIZE)
        target_compile_options(${name} PRIVATE -fsanitize=${CS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
        target_link_options(${name} PRIVATE -fsanitize=${CS_SANITIZE})
    elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
        target_compile_options(${name} PRIVATE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    endif()
    target_link_options(${name} PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack)
endfunction()
