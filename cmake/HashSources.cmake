# Writes one C++ file with a function that returns a digest of source files, so that what one build keeps on disk is not
# taken for another's:
#   cmake -DOUTPUT=F "-DSOURCES=a.cpp;b.cpp" -DNAMESPACE=a::b -DFUNCTION=planner_id -P HashSources.cmake
set(all "")
foreach(source ${SOURCES})
  file(SHA256 ${source} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
file(WRITE ${OUTPUT}
  "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n"
  "std::string_view ${FUNCTION}();\n\nstd::string_view ${FUNCTION}() { return \"${digest}\"; }\n\n"
  "}  // namespace ${NAMESPACE}\n")
