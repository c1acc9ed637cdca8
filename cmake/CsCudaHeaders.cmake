# SPDX-License-Identifier: Apache-2.0
# Finds the CUPTI, CUDA and NVTX headers and makes the interface target cs::cuda_headers. Nothing of CUDA is linked.
# Order: -DCS_CUDA_INCLUDE_DIR, the toolkit, the headers that scripts/fetch-cuda-headers put into build/cuda-headers.
find_path(CS_CUDA_INCLUDE_DIR cupti.h
    HINTS ${CUDAToolkit_ROOT}/include $ENV{CUDA_HOME}/include
          $ENV{CUDA_HOME}/extras/CUPTI/include
          /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include
          /usr/local/cuda-13.0/include
          ${CMAKE_SOURCE_DIR}/build/cuda-headers/include
    DOC "Folder with cupti.h, cuda.h and nvtx3/")
if(NOT CS_CUDA_INCLUDE_DIR)
    message(FATAL_ERROR "No CUPTI headers: install the CUDA toolkit, or run scripts/fetch-cuda-headers "
        "(it brings them from PyPI's NVIDIA wheels into build/cuda-headers), or pass -DCS_CUDA_INCLUDE_DIR=DIR.")
endif()
find_path(CS_CUDA_H_INCLUDE_DIR cuda.h HINTS ${CS_CUDA_INCLUDE_DIR} /usr/local/cuda/include /usr/local/cuda-13.0/include
    ${CMAKE_SOURCE_DIR}/build/cuda-headers/include DOC "Folder with cuda.h")
add_library(cs_cuda_headers INTERFACE)
add_library(cs::cuda_headers ALIAS cs_cuda_headers)
target_include_directories(cs_cuda_headers SYSTEM INTERFACE ${CS_CUDA_INCLUDE_DIR} ${CS_CUDA_H_INCLUDE_DIR})
