# precompile(TARGET HEADERS...)
#
# Parses once what most sources of a target include and takes seconds to parse; the sources name it
# all the same. -fpch-preprocess lets ccache see through it.
function(precompile target)
  if(LOCKSTEP_BATCHES)
    return()  # a batch parses it once anyway
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
