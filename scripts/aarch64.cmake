# SPDX-License-Identifier: Apache-2.0
# CMake's toolchain file for aarch64 with Debian's cross compiler. The libraries come from the folder that
# scripts/aarch64_sysroot makes, and so does QEMU's user mode, through which ctest runs what was built:
#   cmake -DCMAKE_TOOLCHAIN_FILE=scripts/aarch64.cmake -DAARCH64_SYSROOT=FOLDER
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES AARCH64_SYSROOT)

set(CMAKE_SYSROOT ${AARCH64_SYSROOT}/root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${AARCH64_SYSROOT}/root/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${AARCH64_SYSROOT}/root)

set(CMAKE_CROSSCOMPILING_EMULATOR ${AARCH64_SYSROOT}/qemu/usr/bin/qemu-aarch64 -L ${AARCH64_SYSROOT}/root)
