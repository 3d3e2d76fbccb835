# embed_page(TARGET): the files of web/dist become a part of the program, if `./dev build` has made
# them (tools/dev/page.sh). The generator runs in each build and writes only what has changed.
function(embed_page target)
  set(folder ${CMAKE_BINARY_DIR}/page)
  set(source ${folder}/page_files.cc)
  set(generate ${LOCKSTEP_PYTHON} ${CMAKE_SOURCE_DIR}/tools/embed_page.py
               ${CMAKE_SOURCE_DIR}/web/dist ${folder})
  execute_process(COMMAND ${generate} COMMAND_ERROR_IS_FATAL ANY)
  add_custom_target(${target}_page COMMAND ${generate} BYPRODUCTS ${source} VERBATIM)
  add_dependencies(${target} ${target}_page)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
                              SKIP_PRECOMPILE_HEADERS ON)
endfunction()
