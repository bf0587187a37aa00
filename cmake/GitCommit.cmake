# Writes one C++ file with a function that returns the commit of a source tree, followed by "-dirty" where files of it
# were changed, or nothing where there is no git or no repository. The file is left alone where that has not changed:
#   cmake -DOUTPUT=F -DFOLDER=D -DNAMESPACE=a::b -DFUNCTION=git_commit -P GitCommit.cmake
set(commit "")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${FOLDER} describe --always --abbrev=12 --dirty --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "")
  endif()
endif()
string(CONCAT text "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n"
  "std::string_view ${FUNCTION}();\n\nstd::string_view ${FUNCTION}() { return \"${commit}\"; }\n\n"
  "}  // namespace ${NAMESPACE}\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
