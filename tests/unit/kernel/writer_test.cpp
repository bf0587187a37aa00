#include "kernel/writer.hpp"

#include <gtest/gtest.h>

#include "kernel/printer.hpp"

namespace vkfuse::lowering {
namespace {

std::string text_of(Writer writer) { return Printer({}, nullptr).text(writer.take()); }

/// Two loops, one in the other, and what is before, between and after them.
Writer two_loops(bool written_out) {
  Writer writer(written_out);
  writer.open("void main() {{");
  writer.line("vec4 sums[2];");
  writer.unrolled("i", 2, code("sums[i] = vec4(0.0);"));
  writer.open_unrolled("i", 2);
  writer.open("if (i < rows) {{");
  writer.open_unrolled("g", 1);
  writer.line("store(i, g, sums[i + g]);");
  writer.close();
  writer.close();
  writer.close();
  writer.line("barrier();");
  writer.close();
  return writer;
}

TEST(Writer, LeavesLoopsToTheCompiler) {
  EXPECT_EQ(text_of(two_loops(false)), R"(void main() {
  vec4 sums[2];
  [[unroll]] for (uint i = 0u; i < 2u; ++i) sums[i] = vec4(0.0);
  [[unroll]] for (uint i = 0u; i < 2u; ++i) {
    if (i < rows) {
      [[unroll]] for (uint g = 0u; g < 1u; ++g) {
        store(i, g, sums[i + g]);
      }
    }
  }
  barrier();
}
)");
}

TEST(Writer, WritesTheirTurnsWhereTheDriverKeepsArraysInMemory) {
  EXPECT_EQ(text_of(two_loops(true)), R"(void main() {
  vec4 sums[2];
  {
    const uint i = 0u;
    sums[i] = vec4(0.0);
  }
  {
    const uint i = 1u;
    sums[i] = vec4(0.0);
  }
  {
    const uint i = 0u;
    if (i < rows) {
      {
        const uint g = 0u;
        store(i, g, sums[i + g]);
      }
    }
  }
  {
    const uint i = 1u;
    if (i < rows) {
      {
        const uint g = 0u;
        store(i, g, sums[i + g]);
      }
    }
  }
  barrier();
}
)");
}

TEST(Writer, KeepsWhatTurnsNeed) {
  Writer writer(true);
  writer.open_unrolled("u", 2);
  writer.line("x = f16x2_values(words[u]);");
  writer.close();
  const Code all = writer.take();
  EXPECT_EQ(all.prelude_calls(), std::vector<std::string_view>{"f16x2_values"});
}

}  // namespace
}  // namespace vkfuse::lowering
