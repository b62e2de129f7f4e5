# SPDX-License-Identifier: Apache-2.0
# Installs the build folder `build` into the wheel's root, CMAKE_INSTALL_PREFIX, by way of the folder `stage`: the
# Python packages at the root, as modules are imported from there, and all else in cannon_npu, which is the prefix. The
# manual pages are in the folder `data`, too: an environment's share/man is where `man` looks.
#
# A wheel has no symbolic links. What an installation has links for is replaced by files that do the same:
#   - libraries, and folders of such: copies of the libraries with CANN's names. They have few bytes each, and take all
#     functions from ../../lib64/libcannon.so and libcannon_ge.so (their RUNPATH, CMakeLists.txt). Those in lib64/libcann/lib64
#     are opened by MindSpore, which has loaded libcannon.so by then
#   - folders of headers: headers that include the one that is meant
#   - programs, and folders of programs: nothing. The environment's PATH has the folder of the program that is meant (src/cli/environment.c), and
#     torch_npu looks for msprof's other files from there
#   - other folders, which have few files: copies
cmake_policy(VERSION 3.20)
file(REMOVE_RECURSE ${stage})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${build} --prefix ${stage} --strip
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB packages ${stage}/python/site-packages/*)
file(COPY ${packages} DESTINATION ${CMAKE_INSTALL_PREFIX})
file(REMOVE_RECURSE ${stage}/python)
file(COPY ${stage}/share/man DESTINATION ${data}/share)

set(prefix ${CMAKE_INSTALL_PREFIX}/cannon_npu)
file(GLOB_RECURSE paths LIST_DIRECTORIES true RELATIVE ${stage} ${stage}/*)
foreach(path IN LISTS paths)
  get_filename_component(folder ${prefix}/${path} DIRECTORY)
  if(NOT IS_SYMLINK ${stage}/${path})
    if(NOT IS_DIRECTORY ${stage}/${path})
      file(COPY ${stage}/${path} DESTINATION ${folder})
    endif()
    continue()
  endif()

  file(READ_SYMLINK ${stage}/${path} target)
  get_filename_component(meant ${stage}/${path}/../${target} ABSOLUTE)
  if(meant MATCHES "\\.so$")
    file(COPY ${meant} DESTINATION ${folder})
    continue()
  endif()
  if(NOT IS_DIRECTORY ${meant} OR meant STREQUAL ${stage}/bin OR meant STREQUAL ${stage})
    continue()
  endif()
  if(meant STREQUAL ${stage}/lib64)
    file(GLOB libraries ${stage}/lib64/*.so)
    list(REMOVE_ITEM libraries ${stage}/lib64/libcannon.so ${stage}/lib64/libcannon_ge.so)
    file(COPY ${libraries} DESTINATION ${prefix}/${path})
  elseif(meant STREQUAL ${stage}/include)
    file(GLOB_RECURSE headers RELATIVE ${stage}/include ${stage}/include/*.h)
    foreach(header IN LISTS headers)
      get_filename_component(here ${prefix}/${path}/${header} DIRECTORY)
      file(RELATIVE_PATH real ${here} ${prefix}/include/${header})
      file(WRITE ${prefix}/${path}/${header} "#include \"${real}\"\n")
    endforeach()
  else()
    file(COPY ${meant}/ DESTINATION ${prefix}/${path})
  endif()
endforeach()
file(REMOVE_RECURSE ${stage})
