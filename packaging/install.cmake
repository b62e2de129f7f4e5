# SPDX-License-Identifier: Apache-2.0
# Installs the files besides headers, libraries and tools, so that build files and scripts written for CANN find things
# where CANN has them. Included by the top CMakeLists.txt; needs CANNON_VERSION and CANN_VERSION. No installed file
# contains the prefix, so an installation can be moved.
set(packaging ${CMAKE_CURRENT_LIST_DIR})
set(packaged ${PROJECT_BINARY_DIR}/packaging) # files written at configuration
set(arch ${CMAKE_SYSTEM_PROCESSOR}-linux)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION .)
install(FILES ${packaging}/set_env.sh DESTINATION .)
install(FILES ${packaging}/set_env.sh DESTINATION bin RENAME setenv.bash)

# Topologies for `cannon scale`.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/devices/topologies DESTINATION share/cannon FILES_MATCHING PATTERN "*.json")

# Findings of the checker that frameworks cause on purpose.
install(FILES ${packaging}/check/frameworks.supp DESTINATION share/cannon/check)

# Packages that pip installs in addition to the torch_npu wheel.
install(FILES ${PROJECT_SOURCE_DIR}/tests/clients/torch_npu/requirements.txt DESTINATION share/cannon
  RENAME torch_npu.txt)

# Python packages that MindSpore wants, in a folder of CANN's for such.
install(FILES ${packaging}/te/__init__.py DESTINATION opp/built-in/op_impl/ai_core/tbe/te)
install(FILES ${packaging}/hccl/__init__.py ${packaging}/hccl/sys_version.py
  DESTINATION opp/built-in/op_impl/ai_core/tbe/hccl)

# Version files, which frameworks and build scripts read in each package's folder.
foreach(PACKAGE runtime compiler opp)
  foreach(file version.info version.cfg)
    configure_file(${packaging}/${file}.in ${packaged}/${PACKAGE}/${file} @ONLY)
  endforeach()
  install(DIRECTORY ${packaged}/${PACKAGE}/ DESTINATION ${PACKAGE})
endforeach()
configure_file(${packaging}/ascend_toolkit_install.info.in ${packaged}/ascend_toolkit_install.info @ONLY)
install(FILES ${packaged}/ascend_toolkit_install.info DESTINATION ${arch})

# Symbolic links, as "link>target". CANN's own files are in runtime, compiler and <arch>-linux; acllib, fwkacllib, atc
# and devlib are older names that samples and Paddle use, and ascend-toolkit/latest is where an installation lies in what
# Paddle takes for the folder of all of Ascend's software. OpenCV looks for a library of operators' prototypes in opp.
# tests/cli/test_layouts.py has the searches of these projects. Samples that are cross-built link with lib64/stub; CMake
# on Debian searches share/cmake, but not lib64. MindSpore cuts the path of the library that defines aclrtMalloc,
# libcannon.so, and looks for lib64 below what is left: 2.10.0 cuts behind the last "cann", which is in the file's name,
# and 2.7.2 behind "latest", a folder of CANN's, which therefore is in LD_LIBRARY_PATH (src/cli/environment.c).
file(REMOVE_RECURSE ${packaged}/links)
foreach(link
    "runtime/include>../include" "runtime/lib64>../lib64"
    "compiler/include>../include" "compiler/lib64>../lib64"
    "acllib/include>../include" "acllib/lib64>../lib64"
    "fwkacllib/include>../include" "fwkacllib/lib64>../lib64" "fwkacllib/bin>../bin"
    "atc/lib64>../lib64" "atc/bin>../bin" "ascend-toolkit/latest>.."
    "opp/built-in/op_proto/lib/linux/${CMAKE_SYSTEM_PROCESSOR}/libopsproto.so>../../../../../../lib64/libopsproto.so"
    "${arch}/include>../include" "${arch}/lib64>../lib64" "${arch}/devlib>../lib64"
    "bin/msprof>../tools/profiler/bin/msprof" "compiler/bin>../bin" "devlib>lib64" "lib64/stub>." "latest/lib64>../lib64"
    "lib64/libcann/lib64>../../lib64"
    "share/cmake>../lib64/cmake")
  string(REPLACE ">" ";" link ${link})
  list(GET link 0 place)
  list(GET link 1 target)
  get_filename_component(folder ${place} DIRECTORY)
  file(MAKE_DIRECTORY ${packaged}/links/${folder})
  file(CREATE_LINK ${target} ${packaged}/links/${place} SYMBOLIC)
endforeach()
install(DIRECTORY ${packaged}/links/ DESTINATION .)

# The profiler's tool. The permissions do not depend on the checkout's umask: clients refuse the tool if anyone but its
# owner may write to it.
install(PROGRAMS ${packaging}/tools/profiler/bin/msprof DESTINATION tools/profiler/bin)
file(GLOB msprof_files ${packaging}/tools/profiler/profiler_tool/analysis/msprof/*.py)
install(FILES ${msprof_files} DESTINATION tools/profiler/profiler_tool/analysis/msprof
  PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
# Those that MindSpore wants to be executable.
install(PROGRAMS ${packaging}/tools/profiler/profiler_tool/analysis/msprof/msprof.py
  DESTINATION tools/profiler/profiler_tool/analysis/msprof)
install(PROGRAMS ${packaging}/tools/profiler/profiler_tool/analysis/interface/get_msprof_info.py
  DESTINATION tools/profiler/profiler_tool/analysis/interface)

# pkg-config: name, version, libraries, description.
foreach(pc
    "ascendcl|${CANN_VERSION}|-lascendcl|AscendCL runtime interface, as Cannon implements it"
    "cannon|${CANNON_VERSION}|-lopapi -lnnopbase -lascendcl|CANN host interface without an NPU: runtime and operators")
  string(REPLACE "|" ";" pc ${pc})
  list(GET pc 0 PC_NAME)
  list(GET pc 1 PC_VERSION)
  list(GET pc 2 PC_LIBS)
  list(GET pc 3 PC_ABOUT)
  configure_file(${packaging}/library.pc.in ${packaged}/pkgconfig/${PC_NAME}.pc @ONLY)
endforeach()
install(DIRECTORY ${packaged}/pkgconfig/ DESTINATION lib64/pkgconfig)

include(CMakePackageConfigHelpers)
write_basic_package_version_file(${packaged}/cannon-config-version.cmake
  VERSION ${CANNON_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${packaging}/cannon-config.cmake ${packaged}/cannon-config-version.cmake
  DESTINATION lib64/cmake/cannon)

# Manual pages, generated from the help texts: one for cannon and for each of its commands, which are the lines of
# src/cli/commands.def, one for npu-smi, one for atc and one for msprof; and completions for bash and zsh. When cross-compiling, CMake runs the programs by the
# emulator. Builds with a sanitizer are not meant to be installed and have none. man finds the pages as bin is on PATH.
if(NOT CANNON_SANITIZE)
  file(STRINGS ${PROJECT_SOURCE_DIR}/src/cli/commands.def table REGEX "^COMMAND")
  if(NOT table)
    message(FATAL_ERROR "packaging/install.cmake: found no command in src/cli/commands.def")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/commands.def)
  set(man_folder ${PROJECT_BINARY_DIR}/man)
  set(man_names cannon)
  foreach(line IN LISTS table)
    string(REGEX REPLACE "^COMMAND[(]([a-z]+),.*" "cannon-\\1" name "${line}")
    list(APPEND man_names ${name})
  endforeach()
  list(APPEND man_names npu-smi atc msprof)
  foreach(name IN LISTS man_names)
    string(REGEX REPLACE "^cannon-" "cannon;" command ${name})
    string(REPLACE ";" " " words "${command}")
    set(depends "")
    set(see ${man_names})
    if(name STREQUAL "msprof")
      set(command ${Python3_EXECUTABLE} -B ${packaging}/tools/profiler/profiler_tool/analysis/msprof/msprof.py)
      set(depends ${msprof_files})
    endif()
    if(name MATCHES "^cannon-")
      set(see cannon)
    else()
      list(REMOVE_ITEM see ${name})
    endif()
    list(JOIN see "," see)
    set(page ${man_folder}/${name}.1)
    add_custom_command(OUTPUT ${page}
      COMMAND ${command} --help > ${man_folder}/${name}.txt
      COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/gen_man.py --name ${words} --version ${CANNON_VERSION}
        --see ${see} ${man_folder}/${name}.txt ${page}
      DEPENDS cannon npu-smi atc scripts/gen_man.py ${depends} VERBATIM)
    list(APPEND man_pages ${page})
    if(NOT name STREQUAL "msprof")
      list(APPEND completed "${words}=${man_folder}/${name}.txt")
    endif()
  endforeach()
  foreach(shell bash zsh)
    add_custom_command(OUTPUT ${man_folder}/completion.${shell}
      COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/gen_completion.py --shell ${shell}
        --output ${man_folder}/completion.${shell} ${completed}
      DEPENDS ${man_pages} scripts/gen_completion.py VERBATIM)
    list(APPEND completions ${man_folder}/completion.${shell})
  endforeach()
  file(MAKE_DIRECTORY ${man_folder})
  add_custom_target(man ALL DEPENDS ${man_pages} ${completions})
  install(FILES ${man_pages} DESTINATION share/man/man1)
  install(FILES ${man_folder}/completion.bash DESTINATION share/bash-completion/completions RENAME cannon)
  install(FILES ${man_folder}/completion.zsh DESTINATION share/zsh/site-functions RENAME _cannon)
endif()
