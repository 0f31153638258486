# forebay_join_sources(VARIABLE NAME SOURCE...): with FOREBAY_JOIN_SOURCES, replaces the list of sources in VARIABLE by
# a few generated files that hold them all. NAME makes their names unique.
#
# A compiler spends most of its time on a test in templates that all tests of a room use: joined, they take a third of
# the time. Without the option each file is compiled on its own, which is what a change to one file wants.
set(FOREBAY_SOURCES_JOINED_MAX 8)

function(forebay_join_sources variable name)
  set(sources ${ARGN})
  list(SORT sources)
  list(LENGTH sources count)
  if(NOT FOREBAY_JOIN_SOURCES OR count LESS 2)
    set(${variable} ${sources} PARENT_SCOPE)
    return()
  endif()
  # Parts of the same size, as few as there may be.
  math(EXPR parts "(${count} + ${FOREBAY_SOURCES_JOINED_MAX} - 1) / ${FOREBAY_SOURCES_JOINED_MAX}")
  math(EXPR size "(${count} + ${parts} - 1) / ${parts}")
  set(joined)
  set(script ${PROJECT_SOURCE_DIR}/cmake/JoinSources.cmake)
  foreach(begin RANGE 0 ${count} ${size})
    if(begin EQUAL count)
      break()
    endif()
    list(SUBLIST sources ${begin} ${size} part)
    string(REPLACE ";" "," listed "${part}")
    set(output ${CMAKE_CURRENT_BINARY_DIR}/joined/${name}_${begin}.cc)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output} -D ROOT=${PROJECT_SOURCE_DIR} -D SOURCES=${listed} -P ${script}
      DEPENDS ${part} ${script} COMMENT "Joining sources of ${name}" VERBATIM)
    list(APPEND joined ${output})
  endforeach()
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()
