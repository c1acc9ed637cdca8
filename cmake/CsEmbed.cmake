# SPDX-License-Identifier: Apache-2.0
# cs_embed(VARIABLE FILE SYMBOL): FILE as a C array SYMBOL[] and its length SYMBOL_bytes, in a generated source whose path goes
# into VARIABLE. Run as a script (cmake -P) it writes that source: so the build follows changes of FILE without a new configure.
if(CMAKE_SCRIPT_MODE_FILE)
    file(READ ${INPUT} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
    file(WRITE ${OUTPUT}
        "#include <stddef.h>\n\nextern const unsigned char ${SYMBOL}[];\nextern const size_t ${SYMBOL}_bytes;\n\n"
        "const unsigned char ${SYMBOL}[] = {\n${bytes}\n};\nconst size_t ${SYMBOL}_bytes = sizeof(${SYMBOL});\n")
    return()
endif()

set(CS_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(cs_embed variable file symbol)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
    add_custom_command(OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUTPUT=${output} -DSYMBOL=${symbol}
            -P ${CS_EMBED_SCRIPT}
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${CS_EMBED_SCRIPT}
        COMMENT "Embedding ${file}" VERBATIM)
    set(${variable} ${output} PARENT_SCOPE)
endfunction()
