#include "ort/options.hpp"

#include <gtest/gtest.h>

namespace vkfuse::ort {
namespace {

std::string error_of(const std::map<std::string, std::string, std::less<>>& given) {
  const auto options = parse_options(given);
  return options ? "" : options.error().message;
}

TEST(ProviderOptions, SayWhatASessionAsksFor) {
  const auto options = parse_options({{"device", "llvmpipe"},
                                      {"numerics", "strict"},
                                      {"cache", "/kernels"},
                                      {"tune", "background"},
                                      {"tune_ms", "250"},
                                      {"dump", "/plans"}});
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->device, "llvmpipe");
  EXPECT_EQ(options->numerics, Numerics::strict);
  EXPECT_EQ(options->store.folder, "/kernels");
  EXPECT_TRUE(options->store.enabled);
  EXPECT_EQ(options->tune, Tune::background);
  EXPECT_EQ(options->tune_ms, 250);
  EXPECT_EQ(options->dump, "/plans");
}

TEST(ProviderOptions, ACacheMayBeOff) {
  const auto options = parse_options({{"cache", "off"}});
  ASSERT_TRUE(options);
  EXPECT_FALSE(options->store.enabled);
}

TEST(ProviderOptions, WrongOnesAreNamedWithWhatIsAllowed) {
  EXPECT_EQ(error_of({{"devise", "0"}}),
            "vkfuse's execution provider has no option 'devise'; it has device, numerics, cache, tune, tune_ms, "
            "fusion, dump.");
  EXPECT_EQ(error_of({{"numerics", "fast"}}),
            "The option 'numerics' of vkfuse's execution provider is 'fast'; it is one of standard, strict, "
            "f16_accumulation.");
  EXPECT_EQ(error_of({{"tune_ms", "-1"}}),
            "The option 'tune_ms' of vkfuse's execution provider is '-1', which is no time in milliseconds.");
  EXPECT_NE(error_of({{"tune_ms", "nan"}}), "");
  EXPECT_NE(error_of({{"tune_ms", "1s"}}), "");
}

}  // namespace
}  // namespace vkfuse::ort
