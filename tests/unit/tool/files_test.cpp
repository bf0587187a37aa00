// Files as commands read and write them: what is no file, headers that are wrong, outputs that share a name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.hpp"
#include "support/run.hpp"
#include "tool/model.hpp"
#include "tool/output_names.hpp"
#include "unit/onnx/net.hpp"

namespace vkfuse::tool {
namespace {

namespace fs = std::filesystem;

void expect_error(const Result<std::string>& read, const std::string& part) {
  ASSERT_FALSE(read.ok()) << part;
  EXPECT_NE(read.error().message.find(part), std::string::npos) << read.error().message;
}

TEST(Files, WhatIsNoRegularFileIsRefusedAtOnce) {
  const onnx::ScratchFolder folder;
  expect_error(read_whole_file(folder / "."), "is not a regular file.");
  expect_error(read_whole_file(folder / "nothing"), "There is no file");
  expect_error(read_whole_file(folder / "nothing/inside"), "There is no file");
  expect_error(read_whole_file(folder.write("long", "four"), 3), "has 4 bytes, and 3 are the most that are read.");
}

TEST(Files, AreWrittenWholeOrNotAtAll) {
  const onnx::ScratchFolder folder;
  const fs::path path = folder / "file";
  ASSERT_TRUE(write_whole_file(path, "first").ok());
  ASSERT_TRUE(write_whole_file(path, "second\r\n\x1a").ok());
  EXPECT_EQ(*read_whole_file(path), "second\r\n\x1a");
  EXPECT_FALSE(write_whole_file(folder / "no/such/folder", "text").ok());
  EXPECT_FALSE(write_whole_file(folder / ".", "text").ok());
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / ".")) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 1U) << "something half-written is left";
}

TEST(Files, AreTheSameByAnyName) {
  const onnx::ScratchFolder folder;
  ASSERT_TRUE(write_whole_file(folder / "a.json", "").ok());
  fs::create_hard_link(folder / "a.json", folder / "b.json");
  EXPECT_TRUE(is_same_file(folder / "a.json", folder / "./a.json"));
  EXPECT_TRUE(is_same_file(folder / "a.json", folder / "b.json"));
  EXPECT_TRUE(is_same_file(folder / "New.json", folder / "new.JSON"));
  EXPECT_FALSE(is_same_file(folder / "a.json", folder / "c.json"));
  EXPECT_FALSE(is_same_file("", ""));
}

TEST(Files, OutputsHaveFilesOfTheirOwn) {
  using Stems = std::map<std::string, std::string>;
  EXPECT_EQ(file_stems({"a_b", "a.b", "a/b"}), (Stems{{"a_b", "a_b"}, {"a.b", "a_b_2"}, {"a/b", "a_b_3"}}));
  EXPECT_EQ(file_stems({"a.b", "a_b_2", "a_b"}), (Stems{{"a_b", "a_b"}, {"a_b_2", "a_b_2"}, {"a.b", "a_b_3"}}));
  EXPECT_EQ(file_stems({"Y", "y"}), (Stems{{"Y", "Y"}, {"y", "y_2"}}));
  EXPECT_EQ(file_stems({"", "..", "."}), (Stems{{"", "output"}, {".", "_"}, {"..", "__"}}));
  EXPECT_EQ(file_stems({"Con", "com1", "lpt0", "con.npy", "com", "com12"}), (Stems{{"Con", "Con_"},
                                                                                   {"com1", "com1_"},
                                                                                   {"lpt0", "lpt0_"},
                                                                                   {"con.npy", "con_npy"},
                                                                                   {"com", "com"},
                                                                                   {"com12", "com12"}}))
      << "devices of Windows";
  const std::string longer(300, 'a');
  const Stems stems = file_stems({longer, longer + "b"});
  EXPECT_EQ(stems.at(longer).size(), 100U);
  EXPECT_NE(stems.at(longer), stems.at(longer + "b"));
}

/// A file of version 1 with this header, and two floats.
std::string npy(const std::string& header, const std::string& data = std::string(8, '\0')) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

TEST(Npy, HeadersInEveryOrderAreRead) {
  const onnx::ScratchFolder folder;
  for (const char* header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }   \n",
                             "{'shape':(1,2),'fortran_order':False,'descr':'<f4'}",
                             "{\"descr\": \"<f4\", \"shape\": (2L, 1), \"fortran_order\": False}",
                             " { 'shape' : ( 2 , ) , 'fortran_order' : False , 'descr' : '<f4' } "}) {
    const auto tensor = read_npy(folder.write("x.npy", npy(header)));
    ASSERT_TRUE(tensor.ok()) << header << ": " << tensor.error().text();
    EXPECT_EQ(tensor->dtype, DType::f32);
    EXPECT_EQ(tensor->bytes.size(), 8U);
  }
}

TEST(Npy, OthersAreASentence) {
  const onnx::ScratchFolder folder;
  const std::pair<std::string, const char*> all[] = {
      {"", "the NumPy magic"},
      {std::string("\x93NUMPY\x01\x00\xff\xff", 10) + "ab", "its header is cut off"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "its header is cut off"},
      {std::string("\x93NUMPY\x07\x00\x00\x00\x00\x00", 12), "its version is 7"},
      {npy(""), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'fortran_order': False}"), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': 2}"), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2"), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}"), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2x,)}"), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} or more"), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
       "its header is not the dictionary"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), "its header is not the dictionary"},
      {npy("{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (2,)}"), "its header is not the dictionary"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}"), "its type '>f4' is not supported"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}"), "it is in Fortran order"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"), "it has a negative size"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
       "a size has more than 64 bits"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"), "its shape needs 12 bytes, and it holds 8"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}"), "its shape needs 4 bytes, and it holds 8"}};
  for (const auto& [bytes, part] : all) {
    const auto tensor = read_npy(folder.write("x.npy", bytes));
    ASSERT_FALSE(tensor.ok()) << part;
    EXPECT_NE(tensor.error().message.find(part), std::string::npos) << tensor.error().message;
  }
  EXPECT_FALSE(
      read_npy(
          folder.write("x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}")))
          .ok());
}

}  // namespace
}  // namespace vkfuse::tool
