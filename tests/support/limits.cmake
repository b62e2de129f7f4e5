# SPDX-License-Identifier: Apache-2.0
# test_limits(name...): COST and TIMEOUT of tests, from the table below.
#
# A line of the table: a pattern of names; the usual seconds in the release build on an idle machine, which are the COST
# (ctest starts the tests of the highest cost first); an estimate of the seconds in the slowest configuration. The
# TIMEOUT is 8 times that, and at least 60 s. Tests that take less than 2 s are not listed.
set(long_tests
  "numeric[.][0-9]+ 45 60"
  "numeric[.](portable|v3)[.][0-9]+ 28 30"
  "numeric[.](v4|dots)[.]1 30 30"
  "torch_npu[.]environment 300 120" # the download has begun long before
  "mindspore[.]environment 300 60"
  "mindspore[.](training|model|profiler|distributed) 50 60"
  "torch_npu[.]operators 200 200"
  "torch_npu[.](runtime|profiler|training) 60 60"
  "torch_npu[.](dry|check) 15 30"
  "torch_npu[.]distributed 100 100"
  "packages[.](build|deb|torch) 60 60"
  "onnxruntime_cann[.]environment 30 60"
  "onnxruntime_cann[.](operators|graph) 6 30"
  "graph[.]environment 40 60"
  "graph[.]nodes 30 60"
  "graph[.](models|more_nodes) 20 60"
  "packages[.]wheel 30 30"
  "python[.]aclnn[.]torch 18 30"
  "abi 37 37"
  "unit[.](store|elementwise) 20 30"
  "unit[.](pages|vmath|heap|no_memory|tile_gemm[.]amx) 10 20"
  "unit[.](graph_fusion|comm_cost) 3 60"
  "python[.]feed 8 20"
  "python[.]feed[.]torch 10 15"
  "own[.]feed 2 15"
  "unit[.](blocks|ranges|objects|tile_gemm|tile_gemm[.].*|direct_pairs.*) 3 12"
  "profiler 14 20"
  "(cli|monitor|outputs) 9 20"
  "(environment|replay|scale|examples|memory|plan|devices|communication|pages) 2 12"
  "python[.]testing[.](operators|reports|pytest) 15 25"
  "python[.]pyacl 6 20"
  "own[.](fork|record|plan|schedule|graph|host_access|cannon_pool|fork_calls) 6 15"
  "own[.]hccl_(failures|waits) 9 25"
  "own[.]hccl_schedule 4 25"
  "own[.]stalls 10 15"
  "hosts[.]hccl 20 25"
  "conformance[.](notify|event|capture|share|stream) 2 15"
  "stress[.]plan 10 20"
  "stress[.]share[.].* 7 15"
  "stress[.]memory_calls[.].* 4 15"
  "stress[.](pools|workers|fuzz_.*|shared_handles[.].*|call_sequences[.].*|graphs.*) 4 15")

function(test_limits)
  foreach(name IN LISTS ARGN)
    set(cost 1)
    set(slowest 1)
    foreach(line IN LISTS long_tests)
      separate_arguments(line)
      list(GET line 0 pattern)
      if(name MATCHES "^${pattern}$")
        list(GET line 1 cost)
        list(GET line 2 slowest)
      endif()
    endforeach()
    math(EXPR timeout "${slowest} * 8")
    if(timeout LESS 60)
      set(timeout 60)
    endif()
    if(CMAKE_CROSSCOMPILING) # emulated processors are some 10 times slower
      math(EXPR timeout "${timeout} * 4")
    endif()
    set_tests_properties(${name} PROPERTIES COST ${cost} TIMEOUT ${timeout})
  endforeach()
endfunction()

# big_pages_test(name target): the test once more on a machine with pages of 64 KiB (big_pages.c). x86-64 has none.
if(CMAKE_CROSSCOMPILING)
  add_library(big_pages SHARED ${CMAKE_CURRENT_LIST_DIR}/big_pages.c)
  target_link_libraries(big_pages PRIVATE ${CMAKE_DL_LIBS})
endif()
function(big_pages_test name target)
  if(NOT CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(emulator ${CMAKE_CROSSCOMPILING_EMULATOR} -E LD_PRELOAD=$<TARGET_FILE:big_pages>)
  add_test(NAME ${name}.big_pages COMMAND ${emulator} $<TARGET_FILE:${target}>)
  list(JOIN emulator " " words)
  string(REGEX MATCH "^[a-z]+" label ${name})
  set_tests_properties(${name}.big_pages PROPERTIES LABELS ${label}
    ENVIRONMENT "TEST_EMULATOR=${words};CANNON_LEDGER=${CMAKE_CURRENT_BINARY_DIR}/${name}.big_pages.ledger")
  test_limits(${name}.big_pages)
endfunction()

# test_emulator(name): tells a test how it starts itself again where programs run through an emulator (self_exec.h).
function(test_emulator name)
  if(CMAKE_CROSSCOMPILING)
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "TEST_EMULATOR=${emulator}")
  endif()
endfunction()
