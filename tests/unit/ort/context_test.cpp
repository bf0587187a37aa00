#include "ort/context.hpp"

#include <gtest/gtest.h>

#include "support/device.hpp"

namespace vkfuse::ort {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A model of 100 bytes with weights of 0, 3 and 64.
std::string packed() {
  static const std::string weights[] = {"", "abc", std::string(64, 'w')};
  WrittenModel model{std::string(100, 'm'), {}};
  for (std::size_t i = 0; i < std::size(weights); ++i)
    model.external_data.emplace(fmt::format("weights/{}", i), std::as_bytes(std::span(weights[i])));
  return pack(model);
}

TEST(PackedGroups, ComeBackAsTheyWere) {
  const UnpackedModel got = test::must(unpack(bytes_of(packed())));
  EXPECT_EQ(text_of(got.model), std::string(100, 'm'));
  ASSERT_EQ(got.external_data.size(), 3U);
  EXPECT_EQ(text_of(got.external_data.at("weights/0")), "");
  EXPECT_EQ(text_of(got.external_data.at("weights/1")), "abc");
  EXPECT_EQ(text_of(got.external_data.at("weights/2")), std::string(64, 'w'));
}

/// Cut anywhere: a sentence, or whole weights of which some are missing, which the model's import then says.
TEST(PackedGroups, HaveWholeWeightsOrAreRefused) {
  const std::string whole = packed();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Result<UnpackedModel> got = unpack(bytes_of(whole.substr(0, size)));
    if (!got) {
      EXPECT_NE(got.error().message.find("is damaged at byte"), std::string::npos) << got.error().message;
      continue;
    }
    EXPECT_EQ(got->model.size(), 100U) << size;
    for (const auto& [name, elements] : got->external_data)
      EXPECT_EQ(elements.size(), name == "weights/0" ? 0U : name == "weights/1" ? 3U : 64U) << size;
  }
}

TEST(PackedGroups, AreRefusedWithOtherLengths) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{15}, std::size_t{64 + 7}, std::size_t{64 + 3}}) {
    std::string bytes = packed();
    bytes[at] = '\x7f';
    EXPECT_FALSE(unpack(bytes_of(bytes))) << at;
  }
}

}  // namespace
}  // namespace vkfuse::ort
