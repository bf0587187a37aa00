// The text form: what is printed reads back to the same bytes, and what is not the text form is
// refused with the line and the token.
#include <gtest/gtest.h>

#include <cstring>

#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

void expect_round_trip(const ir::Graph& graph) {
  const std::string text = ir::print(graph);
  auto again = ir::parse(text);
  ASSERT_TRUE(again.ok()) << again.error().text() << "\n" << text;
  EXPECT_EQ(ir::print(*again), text);
  ASSERT_EQ(again->size(), graph.size());
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    EXPECT_TRUE(again->node(id).payload == graph.node(id).payload) << "%" << id << " of\n" << text;
    EXPECT_TRUE(again->node(id).type == graph.node(id).type) << "%" << id << " of\n" << text;
  }
}

TEST(Text, RandomGraphsRoundTrip) {
  CaseOptions options;
  options.caps.arithmetic.int64 = options.caps.arithmetic.float64 = true;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) expect_round_trip(random_case(seed, options).graph);
}

TEST(Text, OddNamesRoundTrip) {
  ir::Graph graph;
  std::string bytes;
  for (int c = 1; c < 256; ++c) bytes += static_cast<char>(c);
  graph.name = bytes;
  const ir::NodeId x = must(graph.add_input("\"\\", {DType::f32, {Dim::any("n", {1, 8, 2}), Dim::any("_m2")}}));
  must(graph.add_input("dims", {DType::f32,
                                {Dim::any("batch size"), Dim::any("3", {0, 9, 3}), Dim::any("]\n\""), Dim::any(""),
                                 Dim::any("a.b-c+d")}}));
  must(graph.add_input(std::string("nul\0x41", 7), {DType::f32, {}}));
  must(graph.add_input("# no comment", {DType::f32, {Dim(0)}}));
  must(graph.add_output("} output \"y\" = %0", x));
  must(graph.add_output("\\x41\n", x));
  expect_round_trip(graph);
}

TEST(Text, ConstantsOfEveryDtypeRoundTripBitForBit) {
  Random random(17);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (int count : {0, 1, 2, 16, 17, 40}) {
      for (int round = 0; round < 8; ++round) {
        auto bytes = std::make_shared<std::vector<std::byte>>();
        for (int k = 0; k < count * size_of(dtype); ++k) {
          bytes->push_back(static_cast<std::byte>(dtype == DType::boolean ? random.below(2) : random.word() & 0xff));
        }
        ir::Graph graph;
        must(graph.add_output("y", must(graph.add_constant({dtype, {Dim(count)}}, bytes))));
        expect_round_trip(graph);
      }
    }
  }
}

TEST(Text, SpecialFloatsRoundTripBitForBit) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7fa00001u, 0xffc12345u, 0x7f800000u, 0xff800000u, 0x80000000u,
                                   0x00000001u, 0x007fffffu, 0x7f7fffffu}) {
    auto bytes = std::make_shared<std::vector<std::byte>>(4);
    std::memcpy(bytes->data(), &bits, 4);
    ir::Graph graph;
    must(graph.add_output("y", must(graph.add_constant({DType::f32, {}}, bytes))));
    expect_round_trip(graph);
  }
  for (std::uint32_t bits = 0; bits < 0x10000; bits += 7) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      auto bytes = std::make_shared<std::vector<std::byte>>(2);
      std::memcpy(bytes->data(), &bits, 2);
      ir::Graph graph;
      must(graph.add_output("y", must(graph.add_constant({dtype, {}}, bytes))));
      const ir::Graph again = must(ir::parse(ir::print(graph)));
      ASSERT_TRUE(again.node(0).payload == graph.node(0).payload) << bits << "\n" << ir::print(graph);
    }
  }
}

struct Malformed {
  const char* text;
  const char* sentence;  ///< that the error contains
};

const Malformed kMalformed[] = {
    {"", "Line 0: the graph ends without its closing brace"},
    {"graff \"g\" {\n}", "Line 1: expected 'graph \"name\" {', found 'graff"},
    {"graph g {\n}", "Line 1: expected a quoted graph name, found 'g {'"},
    {"graph \"g\n}", "Line 1: expected a quoted graph name"},
    {"graph \"g\"\n}", "Line 1: expected '{' after the graph's name"},
    {"graph \"g\" {\n}", "Line 2: the graph 'g' has no outputs"},
    {"graph \"g\" {\n  nonsense\n}", "Line 2: expected '%N = ...', 'output', 'dim' or '}', found 'nonsense'"},
    {"graph \"g\" {\n %1 = input \"x\" : f32[]\n}", "Line 2: expected '%0', found '%1'"},
    {"graph \"g\" {\n %0 input \"x\" : f32[]\n}", "Line 2: expected '=' after '%0'"},
    {"graph \"g\" {\n %0 = inputt \"x\" : f32[]\n}", "Line 2: 'inputt' is not the name of an op"},
    {"graph \"g\" {\n %0 = input x : f32[]\n}", "Line 2: expected a quoted input name, found 'x"},
    {"graph \"g\" {\n %0 = input \"\" : f32[]\n}", "Line 2: An input of type f32[] has an empty name"},
    {"graph \"g\" {\n %0 = input \"x\" f32[]\n}", "Line 2: expected ': type', found 'f32[]'"},
    {"graph \"g\" {\n %0 = input \"x\" : f33[]\n}", "Line 2: 'f33' is not a dtype"},
    {"graph \"g\" {\n %0 = input \"x\" : f32\n}", "Line 2: expected a shape '[...]'"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[\n}", "Line 2: expected a dimension or ']'"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[3\n}", "Line 2: expected ',' or ']' in a shape"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[-3]\n}", "Line 2: '-3' is not a dimension"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[99999999999999999999]\n}",
     "Line 2: '99999999999999999999' is not a dimension"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[4294967296, 4294967296]\n}",
     "Line 2: A tensor of shape [4294967296, 4294967296] has more elements"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[] junk\n}", "Line 2: unexpected text 'junk'"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n %1 = input \"x\" : f32[]\n}", "Line 3: Two inputs are named 'x'"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n %1 = neg %7 : f32[]\n}",
     "Line 3: '%7' is not defined before this line"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n %1 = neg %1 : f32[]\n}",
     "Line 3: '%1' is not defined before this line"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n %1 = neg : f32[]\n}", "Line 3: 'neg' takes 1 operand"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n %1 = neg %0 : f16[]\n}",
     "Line 3: 'neg' gives f32[], but f16[] is declared"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[3]\n %1 = neg %0 : f32[4]\n}",
     "Line 3: 'neg' gives f32[3], but f32[4] is declared"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[3]\n %1 = input \"z\" : f32[4]\n %2 = add %0 %1 : f32[4]\n}",
     "Line 4: Shapes [3] and [4] do not broadcast"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n %1 = bit_not %0 : f32[]\n}",
     "Line 3: 'bit_not' is not defined on f32"},
    {"graph \"g\" {\n %0 = constant {1, 2} : f32[3]\n}",
     "Line 2: A constant of type f32[3] needs 12 bytes, but 8 were given"},
    {"graph \"g\" {\n %0 = constant {one} : f32[]\n}", "Line 2: 'one' is not a number"},
    {"graph \"g\" {\n %0 = constant {300} : u8[]\n}", "Line 2: '300' is not a value of u8"},
    {"graph \"g\" {\n %0 = constant {2} : bool[]\n}", "Line 2: '2' is not a value of bool"},
    {"graph \"g\" {\n %0 = constant {1 2} : u8[2]\n}", "Line 2: expected ',' in a constant, found '2'"},
    {"graph \"g\" {\n %0 = constant 0x123 : u8[2]\n}", "odd number of hexadecimal digits"},
    {"graph \"g\" {\n %0 = constant 0x12zz : u8[2]\n}", "Line 2: 'zz' is not hexadecimal"},
    {"graph \"g\" {\n %0 = constant 0x02 : bool[1]\n}", "Line 2: A boolean constant holds the byte 2"},
    {"graph \"g\" {\n %0 = constant {1}\n}", "Line 2: expected ': type' after the constant"},
    {"graph \"g\" {\n %0 = constant {1} : f32[n]\n}", "Line 2: A constant cannot have the symbolic dimension 'n'"},
    {"graph \"g\" {\n %0 = iota : u32[4]\n}", "Line 2: expected 'axis=', found ': u32[4]'"},
    {"graph \"g\" {\n %0 = iota axis=1 : u32[4]\n}", "Line 2: iota runs along axis 1, but its shape [4] has 1 axes"},
    {"graph \"g\" {\n %0 = iota axis=x : u32[4]\n}", "Line 2: 'x' is not a whole number in range for 'axis'"},
    {"graph \"g\" {\n %0 = random seed=-1 : u32[4]\n}", "Line 2: '-1' is not a whole number in range for 'seed'"},
    {"graph \"g\" {\n dim n min=4 max=2 multiple=1\n}",
     "Line 2: dim 'n' has impossible facts: min 4, max 2, multiple 1"},
    {"graph \"g\" {\n dim n min=4\n}", "Line 2: expected 'max=', found ''"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n output y = %0\n}", "Line 3: expected a quoted output name, found 'y"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n output \"y\" %0\n}", "Line 3: expected '=' after the output's name"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n output \"y\" = %3\n}", "Line 3: '%3' is not defined before this line"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n output \"y\" = %0\n output \"y\" = %0\n}",
     "Line 4: Two outputs are named 'y'"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n output \"y\" = %0\n}\nmore",
     "Line 5: there is text after the closing brace: 'more'"},
    {"graph \"g\" {\n %0 = input \"x\" : f32[]\n output \"y\" = %0\n",
     "Line 3: the graph ends without its closing brace"},
};

TEST(Text, MalformedTextNamesTheLineAndTheToken) {
  for (const Malformed& one : kMalformed) {
    const auto graph = ir::parse(one.text);
    if (graph.ok()) {
      ADD_FAILURE() << "accepted:\n" << one.text;
      continue;
    }
    EXPECT_NE(graph.error().text().find(one.sentence), std::string::npos)
        << graph.error().text() << "\nwanted: " << one.sentence << "\nfor:\n"
        << one.text;
    EXPECT_EQ(graph.error().message.substr(0, 5), "Line ") << graph.error().message;
    EXPECT_EQ(graph.error().message.back(), '.') << graph.error().message;
  }
}

TEST(Text, ErrorsQuoteTheBeginningOfALongLine) {
  const auto message = [](const std::string& line) {
    const auto graph = ir::parse("graph \"g\" {\n" + line + "\n}");
    return graph.ok() ? std::string() : graph.error().message;
  };
  const auto found = [](std::string_view quoted) {
    return fmt::format("Line 2: expected '%N = ...', 'output', 'dim' or '}}', found '{}'.", quoted);
  };
  const std::string forty(40, 'x');
  EXPECT_EQ(message(forty), found(forty));
  EXPECT_EQ(message(forty + "x"), found(fmt::format("{}...", forty.substr(0, 37))));
  // Not in the middle of a character.
  EXPECT_EQ(message(fmt::format("{}\xc3\xa4\xc3\xa4\xc3\xa4", forty.substr(0, 36))),
            found(fmt::format("{}...", forty.substr(0, 36))));
  for (const char* line :
       {"%0 = @ : f32[]", "%0 = input \"x\" : @[]", "%0 = input \"x\" : f32[@]", "%@ = input \"x\" : f32[]",
        "%0 = constant 0x@ : f32[1]", "%0 = constant {@} : i8[1]", "output @", "@"}) {
    std::string text = line;
    text.replace(text.find('@'), 1, std::string(5000, '7'));
    const std::string refused = message(text);
    EXPECT_FALSE(refused.empty()) << line;
    EXPECT_LT(refused.size(), 150u) << refused;
  }
}

}  // namespace
}  // namespace vkfuse::test
