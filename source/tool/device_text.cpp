#include "tool/device_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace vkfuse::tool {

namespace {

/// Adds words to a text in lines of at most 80 columns.
class Lines {
 public:
  /// Parts that a line never ends in, one after the other.
  void add(std::size_t indent, const std::vector<std::string>& parts, const char* between) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string part = parts[i] + (i + 1 < parts.size() ? between : "");
      if (line.size() > indent && line.size() + part.size() > kColumns) {
        end(line);
        line.assign(indent + 2, ' ');
      }
      line += part;
    }
    end(line);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kColumns = 80;
  void end(std::string& line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }
  std::string text_;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::string architecture_text(const DeviceDescription& device) {
  std::vector<std::string> sources;
  for (const ArchitectureFigure& figure : device.figures) {
    if (std::find(sources.begin(), sources.end(), figure.source) == sources.end()) sources.push_back(figure.source);
  }
  Lines lines;
  lines.add(3, words_of(fmt::format("architecture {}; its numbers, by where they are from:", device.architecture)),
            " ");
  for (const std::string& source : sources) {
    lines.add(3, words_of(source), " ");
    std::vector<std::string> numbers;
    for (const ArchitectureFigure& figure : device.figures) {
      if (figure.source != source) continue;
      numbers.push_back(
          fmt::format("{} {:.10g}{}{}", figure.name, figure.value, figure.unit.empty() ? "" : " ", figure.unit));
    }
    lines.add(5, numbers, ", ");
  }
  return lines.text();
}

}  // namespace vkfuse::tool
