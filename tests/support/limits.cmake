# test_limits(name...): COST and TIMEOUT of tests from the table below.
#
# The table has the tests that take more than 6 s: a pattern of names; the usual seconds in the release build, which are
# the COST (ctest starts the longest first); the usual seconds in the slowest configuration.
set(long_tests
  "numeric[.][0-9]+ 40 80"
  )

function(test_limits)
  foreach(name IN LISTS ARGN)
    set(cost 1)
    set(timeout 60)
    foreach(line IN LISTS long_tests)
      string(REPLACE " " ";" line "${line}")
      list(GET line 0 pattern)
      if(name MATCHES "^${pattern}$")
        list(GET line 1 cost)
        list(GET line 2 slowest)
        math(EXPR timeout "${slowest} * 8")
      endif()
    endforeach()
    if(timeout LESS 60)
      set(timeout 60)
    endif()
    set_tests_properties(${name} PROPERTIES COST ${cost} TIMEOUT ${timeout})
  endforeach()
endfunction()
