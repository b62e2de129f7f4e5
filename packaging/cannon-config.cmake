# SPDX-License-Identifier: Apache-2.0
# find_package(cannon) defines these targets:
#   cannon::ascendcl   the runtime (acl/*.h)
#   cannon::nnopbase   tensors, scalars, executors (aclnn/*.h)
#   cannon::opapi      operators (aclnnop/*.h); includes the other two
# The libraries have CANN's names, so a program that is linked with them also runs with CANN's own. The installation can
# be moved.
get_filename_component(_cannon_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(_cannon_prefix "${_cannon_file}" DIRECTORY)
get_filename_component(_cannon_prefix "${_cannon_prefix}/../../.." ABSOLUTE)

foreach(_cannon_library ascendcl nnopbase opapi)
  if(NOT TARGET cannon::${_cannon_library})
    add_library(cannon::${_cannon_library} SHARED IMPORTED)
    set_target_properties(cannon::${_cannon_library} PROPERTIES
      IMPORTED_LOCATION "${_cannon_prefix}/lib64/lib${_cannon_library}.so"
      IMPORTED_SONAME "lib${_cannon_library}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_cannon_prefix}/include")
  endif()
endforeach()
set_property(TARGET cannon::nnopbase PROPERTY INTERFACE_LINK_LIBRARIES cannon::ascendcl)
set_property(TARGET cannon::opapi PROPERTY INTERFACE_LINK_LIBRARIES cannon::nnopbase cannon::ascendcl)

unset(_cannon_file)
unset(_cannon_prefix)
unset(_cannon_library)
