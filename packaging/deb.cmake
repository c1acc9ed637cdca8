# SPDX-License-Identifier: Apache-2.0
# A Debian package of what `cmake --install` installs, under /usr:
#
#   cmake --build build/release --target package      # build/release/collscope_VERSION_ARCH.deb
#
# dpkg-shlibdeps (dpkg-dev, and file) finds what it depends on. CUPTI is looked for at run time and is no dependency.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME collscope)
set(CPACK_PACKAGE_VENDOR collscope)
set(CPACK_PACKAGE_CONTACT "collscope maintainers <collscope@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "profiler of collective communication for LLM inference servers")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "The CUDA driver loads libcollscope.so into a server by one environment variable.
It records every collective kernel with its size, implementation and rank;
collscope-exporter serves them as Prometheus metrics, collscope shows them.")
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
