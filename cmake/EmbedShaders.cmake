# Writes one C++ file with the text of every shader: cmake -DOUTPUT=F -DSHADERS=a;b -P EmbedShaders.cmake
set(text "#include \"base/shaders.hpp\"\n\nnamespace vkfuse {\nnamespace {\nconstexpr EmbeddedShader kShaders[] = {\n")
foreach(shader ${SHADERS})
  get_filename_component(name ${shader} NAME)
  file(READ ${shader} body)
  # A raw string literal may be limited to 64 KiB; adjacent literals are joined by the compiler.
  string(LENGTH "${body}" length)
  string(APPEND text "    {\"${name}\",\n")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${body}" ${at} 8000 part)
    string(APPEND text "     R\"__glsl__(${part})__glsl__\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  string(APPEND text "    },\n")
endforeach()
string(APPEND text
  "};\n}  // namespace\n\n"
  "std::span<const EmbeddedShader> embedded_shaders() { return kShaders; }\n\n"
  "}  // namespace vkfuse\n")
file(WRITE ${OUTPUT} "${text}")
