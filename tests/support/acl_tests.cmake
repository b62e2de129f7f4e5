# SPDX-License-Identifier: Apache-2.0
# acl_tests(LABEL name...): one executable and one test for each name.c of the current folder.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_package(Threads REQUIRED)

function(acl_tests label)
  foreach(name IN LISTS ARGN)
    set(target ${label}_${name})
    add_executable(${target} ${name}.c)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_link_libraries(${target} PRIVATE ascendcl nnopbase opapi PkgConfig::CMOCKA Threads::Threads m)
    add_test(NAME ${label}.${name} COMMAND ${target})
    # A machine of its own: tests that run at the same time do not share devices' memory.
    set_tests_properties(${label}.${name} PROPERTIES LABELS ${label}
      ENVIRONMENT CANNON_LEDGER=${CMAKE_CURRENT_BINARY_DIR}/${name}.ledger)
    test_emulator(${label}.${name})
    test_limits(${label}.${name})
    if(CANNON_SANITIZE STREQUAL "thread") # it would wait a second for other threads at each exit
      set_property(TEST ${label}.${name} APPEND PROPERTY ENVIRONMENT TSAN_OPTIONS=atexit_sleep_ms=0)
    endif()
  endforeach()
endfunction()
