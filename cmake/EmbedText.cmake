# Writes one C++ file with a function that returns the text of a file:
#   cmake -DOUTPUT=F -DTEXT=page.html -DNAMESPACE=a::b -DFUNCTION=page_template -P EmbedText.cmake
file(READ ${TEXT} body)
string(CONCAT text
  "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n"
  "std::string_view ${FUNCTION}();\n\nstd::string_view ${FUNCTION}() {\n  return\n")
# A raw string literal may be limited to 64 KiB; adjacent literals are joined by the compiler.
string(LENGTH "${body}" length)
set(at 0)
while(at LESS length)
  string(SUBSTRING "${body}" ${at} 8000 part)
  string(APPEND text "      R\"__text__(${part})__text__\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
string(APPEND text "      ;\n}\n\n}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")
