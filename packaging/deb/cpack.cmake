# SPDX-License-Identifier: Apache-2.0
# CPack's configuration of the Debian package. make_deb calls `cpack --config` with it, and sets in the environment
#   CANNON_STAGE     the files, laid out as in the root
#   CANNON_DEPENDS   the packages that the binaries need. CPack's own search takes 15 s, as it starts a program for each
#                    header
#   CANNON_VERSION
# The prefix is /usr/lib/cannon: a folder of the package's own below /usr, as the file system standard asks of what a
# distribution's package manager installs (/opt is for what it does not know of), and outside of the loader's path, so
# that libraries with CANN's names are found only by programs that ask for Cannon.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cannon-npu)
set(CPACK_PACKAGE_VERSION $ENV{CANNON_VERSION})
set(CPACK_PACKAGE_FILE_NAME cannon-npu)
set(CPACK_PACKAGE_VENDOR "The Cannon project")
set(CPACK_PACKAGE_CONTACT "The Cannon project <cannon@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "CANN's host stack, the software of Ascend NPUs, without an NPU")
set(CPACK_PACKAGE_DESCRIPTION "Programs that are written for Huawei's Ascend NPUs build and run on any Linux machine.
Libraries with CANN's names compute on the processor, and tell what a program does wrong.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr/lib/cannon)
set(CPACK_INSTALLED_DIRECTORIES "$ENV{CANNON_STAGE};/")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "$ENV{CANNON_DEPENDS}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_CURRENT_LIST_DIR}/prerm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3) # msprof is written in Python
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-numpy, libucx0")
