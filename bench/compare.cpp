#include "compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "ops/op.hpp"
#include "report.hpp"

namespace vkfuse::bench {

namespace {

using nlohmann::json;

double middle(std::vector<double> samples) {
  const auto half = static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), samples.begin() + half, samples.end());
  if (samples.size() % 2 == 1) return samples[samples.size() / 2];
  return (samples[samples.size() / 2] + *std::max_element(samples.begin(), samples.begin() + half)) / 2;
}

/// As many samples as there were, spread as the quantiles say: for reports that keep no samples.
std::vector<double> from_quantiles(const json& row, const std::string& what) {
  const double p10 = row.value(what + "_p10", 0.0), p50 = row.value(what + "_us", 0.0),
               p90 = row.value(what + "_p90", 0.0);
  const int n = std::max(1, row.value(what + "_n", 1));
  std::vector<double> samples;
  for (int i = 0; i < n; ++i) {
    const double part = std::clamp((i + 0.5) / n, 0.1, 0.9);
    samples.push_back(part < 0.5 ? p10 + (p50 - p10) * (part - 0.1) / 0.4 : p50 + (p90 - p50) * (part - 0.5) / 0.4);
  }
  return samples;
}

bool is_number(const json& row, const std::string& key) {
  return row.contains(key) && row[key].is_number() && row[key].get<double>() > 0;
}

/// Empty where the row has no such time.
std::vector<double> samples_of(const json& row, const std::string& what) {
  if (!is_number(row, what + "_us")) return {};
  if (!row.contains("samples") || !row["samples"].contains(what)) return from_quantiles(row, what);
  return row["samples"][what].get<std::vector<double>>();
}

/// Draws with replacement, a few neighbours at a time: times that follow each other are alike, and drawn one by one
/// they would pass for more knowledge than they are.
class Resampler {
 public:
  explicit Resampler(std::uint64_t seed) : seed_(seed) {}

  double median(const std::vector<double>& samples) {
    const auto block =
        static_cast<std::size_t>(std::max(1.0, std::round(std::cbrt(static_cast<double>(samples.size())))));
    std::vector<double> drawn;
    while (drawn.size() < samples.size()) {
      std::size_t at = ops::philox(seed_, counter_++) % samples.size();
      for (std::size_t i = 0; i < block && drawn.size() < samples.size(); ++i)
        drawn.push_back(samples[(at + i) % samples.size()]);
    }
    return middle(std::move(drawn));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
};

void bootstrap(const std::vector<double>& before, const std::vector<double>& after, int resamples, Change& change) {
  change.before_us = middle(before);
  change.after_us = middle(after);
  change.ratio = change.after_us / change.before_us;
  Resampler resampler(17);
  std::vector<double> ratios;
  for (int i = 0; i < resamples; ++i) {
    const double drawn = resampler.median(after);
    ratios.push_back(drawn / resampler.median(before));
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double part) {
    return ratios[static_cast<std::size_t>(part * static_cast<double>(ratios.size() - 1))];
  };
  change.low = at(0.025);
  change.high = at(0.975);
}

/// Rows by device and case.
std::map<std::string, const json*> rows_of(const json& report) {
  std::map<std::string, const json*> rows;
  const std::vector<const json*> devices = devices_of(report);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i]->contains("rows")) continue;
    for (const json& row : (*devices[i])["rows"]) {
      const std::string name =
          row.contains("case") ? row.value("case", "") : row.value("name", "") + ' ' + row.value("size", "");
      rows[devices.size() > 1 ? fmt::format("{} {}", i, name) : name] = &row;
    }
  }
  return rows;
}

void divide_by_copy(std::vector<double>& samples, const json& row) {
  if (!is_number(row, "copy_us")) return;
  const double copy = row["copy_us"].get<double>();
  for (double& us : samples) us /= copy;
}

/// The row has no time because it is wrong or failed. A skip is no fault.
bool is_broken(const json& row) {
  const std::string outcome = row.value("outcome", "");
  return outcome == "wrong" || outcome == "failed";
}

void compare_rows(const std::string& name, const json& before, const json& after, const CompareOptions& options,
                  Comparison& result) {
  std::vector<double> a = samples_of(before, options.what), b = samples_of(after, options.what);
  Change change;
  change.name = name;
  if (!a.empty() && is_broken(after)) {
    change.before_us = middle(a);
    change.finding = Finding::broken;
    result.changes.push_back(change);
    return;
  }
  if (a.empty() || b.empty()) {
    if (a.empty() != b.empty()) result.only_one.push_back(name);
    return;
  }
  if (options.relative) {
    divide_by_copy(a, before);
    divide_by_copy(b, after);
  }
  bootstrap(a, b, options.resamples, change);
  const double limit = 1 + options.threshold / 100;
  change.finding = change.low > limit ? Finding::slower : change.high < 1 / limit ? Finding::faster : Finding::same;
  result.changes.push_back(change);
}

}  // namespace

bool Comparison::regressed() const {
  return std::any_of(changes.begin(), changes.end(), [](const Change& change) {
    return change.finding == Finding::slower || change.finding == Finding::broken;
  });
}

Result<Comparison> compare(const json& before, const json& after, const CompareOptions& options) {
  Comparison result;
  const auto old_rows = rows_of(before), new_rows = rows_of(after);
  for (const auto& [name, row] : old_rows) {
    const auto other = new_rows.find(name);
    if (other != new_rows.end()) compare_rows(name, *row, *other->second, options, result);
    if (other == new_rows.end() && !samples_of(*row, options.what).empty()) result.only_one.push_back(name);
  }
  for (const auto& [name, row] : new_rows) {
    if (old_rows.count(name) == 0 && !samples_of(*row, options.what).empty()) result.only_one.push_back(name);
  }
  if (result.changes.empty())
    return make_error(ErrorCode::not_found, "The two reports have no case in common that both measured ('{}').",
                      options.what);
  double sum = 0;
  int count = 0;
  for (const Change& change : result.changes) {
    if (change.finding == Finding::broken) continue;
    sum += std::log(change.ratio);
    ++count;
  }
  if (count > 0) result.mean_ratio = std::exp(sum / count);
  return result;
}

std::string to_text(const Comparison& comparison, const CompareOptions& options) {
  const char* const words[] = {"", "SLOWER", "faster", "BROKEN"};
  std::string text = fmt::format("{:<32} {:>9} {:>9} {:>6} {:>13}\n", "case", options.relative ? "before" : "before us",
                                 options.relative ? "after" : "after us", "ratio", "95 % interval");
  int counts[4] = {};
  for (const Change& change : comparison.changes) {
    ++counts[static_cast<int>(change.finding)];
    text +=
        fmt::format("{:<32} {:>9.4g} {:>9.4g} {:>6.3f} {:>6.3f} {:>6.3f} {}\n", change.name, change.before_us,
                    change.after_us, change.ratio, change.low, change.high, words[static_cast<int>(change.finding)]);
  }
  for (const std::string& name : comparison.only_one)
    text += fmt::format("{:<32} was measured by one of them only\n", name);
  text += fmt::format("{} slower by more than {} %, {} faster, {} alike, {} broken; geometric mean {:.3f}\n", counts[1],
                      options.threshold, counts[2], counts[0], counts[3], comparison.mean_ratio);
  return text;
}

}  // namespace vkfuse::bench
