// The text form, read. A line is one statement; errors name the line and the token.
#include <charconv>
#include <cstdlib>
#include <map>

#include "ir/structured.hpp"

namespace vkfuse::ir {

namespace {

/// A text as an error quotes it: the beginning of one that is long, whole characters of UTF-8.
std::string shown_part(std::string_view text) {
  constexpr std::size_t kMostShown = 40;
  if (text.size() <= kMostShown) return std::string(text);
  std::size_t end = kMostShown - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return std::string(text.substr(0, end)) + "...";
}

/// One line, consumed from the left.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) { skip(); }

  [[nodiscard]] bool done() const { return rest_.empty() || rest_.front() == '#'; }
  bool accept(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    skip();
    return true;
  }
  /// Letters, digits, '_', '.', '-', '+': names and numbers.
  std::string word() {
    std::size_t n = 0;
    while (n < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[n])) != 0 || rest_[n] == '_' ||
                                rest_[n] == '.' || rest_[n] == '-' || rest_[n] == '+')) {
      ++n;
    }
    std::string token(rest_.substr(0, n));
    rest_.remove_prefix(n);
    skip();
    return token;
  }
  [[nodiscard]] char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  /// The rest, as an error quotes it.
  [[nodiscard]] std::string shown() const { return shown_part(rest_); }

  std::optional<std::string> quoted() {
    if (peek() != '"') return std::nullopt;
    std::string text;
    std::size_t i = 1;
    for (; i < rest_.size() && rest_[i] != '"'; ++i) {
      if (rest_[i] == '\\' && i + 3 < rest_.size() && rest_[i + 1] == 'x') {
        unsigned code = 0;
        std::from_chars(rest_.data() + i + 2, rest_.data() + i + 4, code, 16);
        text += static_cast<char>(code);
        i += 3;
      } else if (rest_[i] == '\\' && i + 1 < rest_.size()) {
        text += rest_[++i];
      } else {
        text += rest_[i];
      }
    }
    if (i >= rest_.size()) return std::nullopt;
    rest_.remove_prefix(i + 1);
    skip();
    return text;
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r'))
      rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

template <typename T>
std::optional<T> number(const std::string& token) {
  T value{};
  const auto parsed = std::from_chars(token.data(), token.data() + token.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != token.data() + token.size()) return std::nullopt;
  return value;
}

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options) : text_(text), options_(options) {}

  Result<Graph> run() {
    bool opened = false;
    bool closed = false;
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      Line line(text_.substr(0, end));
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++number_;
      if (line.done()) continue;
      if (closed) return fail("there is text after the closing brace: '{}'", line.shown());
      if (!opened) {
        VKF_CHECK_OK(header(line));
        opened = true;
      } else if (line.accept("}")) {
        closed = true;
      } else {
        VKF_CHECK_OK(statement(line));
      }
      if (!line.done()) return fail("unexpected text '{}'", line.shown());
    }
    if (!closed) return fail("the graph ends without its closing brace{}", "");
    if (graph_.outputs().empty()) return fail("the graph '{}' has no outputs", graph_.name);
    return std::move(graph_);
  }

 private:
  template <typename... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) {
    return invalid("Line {}: {}.", number_, fmt::format(format, std::forward<Args>(args)...));
  }

  Result<void> header(Line& line) {
    if (!line.accept("graph")) return fail("expected 'graph \"name\" {{', found '{}'", line.shown());
    auto name = line.quoted();
    if (!name) return fail("expected a quoted graph name, found '{}'", line.shown());
    graph_.name = *name;
    if (!line.accept("{")) return fail("expected '{{' after the graph's name, found '{}'", line.shown());
    return {};
  }

  Result<void> statement(Line& line) {
    if (line.accept("%")) return node(line);
    if (line.accept("output ")) return output(line);
    if (line.accept("dim ")) return dim(line);
    return fail("expected '%N = ...', 'output', 'dim' or '}}', found '{}'", line.shown());
  }

  Result<void> key_of(Line& line, std::string_view key) {
    if (line.accept(std::string(key) + "=")) return {};
    return fail("expected '{}=', found '{}'", key, line.shown());
  }

  template <typename T>
  Result<T> whole(Line& line, std::string_view key) {
    const std::string token = line.word();
    const auto value = number<T>(token);
    if (!value) return fail("'{}' is not a whole number in range for '{}'", shown_part(token), key);
    return *value;
  }

  template <typename T>
  Result<T> attribute(Line& line, std::string_view key) {
    VKF_CHECK_OK(key_of(line, key));
    return whole<T>(line, key);
  }

  Result<void> dim(Line& line) {
    VKF_TRY(name, symbol(line));
    DimFacts facts;
    VKF_TRY(min, attribute<std::int64_t>(line, "min"));
    VKF_TRY(max, attribute<std::int64_t>(line, "max"));
    VKF_TRY(multiple, attribute<std::int64_t>(line, "multiple"));
    facts = {min, max, multiple};
    if (min < 0 || max < min || multiple < 1) {
      return fail("dim '{}' has impossible facts: min {}, max {}, multiple {}", name, min, max, multiple);
    }
    facts_[name] = facts;
    return {};
  }

  Result<NodeId> reference(Line& line) {
    if (!line.accept("%")) return fail("expected a value '%N', found '{}'", line.shown());
    const std::string token = line.word();
    const auto id = number<NodeId>(token);
    if (!id || *id >= graph_.size()) return fail("'%{}' is not defined before this line", shown_part(token));
    return *id;
  }

  Result<void> output(Line& line) {
    const auto name = line.quoted();
    if (!name) return fail("expected a quoted output name, found '{}'", line.shown());
    if (!line.accept("=")) return fail("expected '=' after the output's name, found '{}'", line.shown());
    VKF_TRY(value, reference(line));
    auto added = graph_.add_output(*name, value);
    if (!added) return located(std::move(added).error());
    return {};
  }

  Error located(Error error) {
    error.message = fmt::format("Line {}: {}", number_, error.message);
    return error;
  }

  Result<void> node(Line& line) {
    const std::string id_token = line.word();
    const auto id = number<NodeId>(id_token);
    if (!id || *id != graph_.size()) return fail("expected '%{}', found '%{}'", graph_.size(), shown_part(id_token));
    if (!line.accept("=")) return fail("expected '=' after '%{}'", shown_part(id_token));
    const std::string op_name = line.word();
    const ops::OpRow* op = ops::find(op_name);
    if (op == nullptr) return fail("'{}' is not the name of an op", shown_part(op_name));
    if (has_own_code(*op) && !options_.allow_custom) {
      return unsupported(
          "Line {}: the op '{}' holds code of the text's own, which runs only where the caller allows it "
          "(allow_custom, --allow-custom).",
          number_, op->name);
    }
    auto added = body(line, *op);
    if (!added) return std::move(added).error();
    return {};
  }

  Result<void> body(Line& line, const ops::OpRow& op) {
    VKF_TRY(payload, payload_of(line, op));
    std::string_view literal;
    if (op.cls == ops::OpClass::constant) {
      literal = line.rest();
      const std::size_t colon = literal.find(':');
      if (colon == std::string_view::npos) return fail("expected ': type' after the constant{}", "");
      line = Line(literal.substr(colon));
      literal = literal.substr(0, colon);
    }
    std::vector<NodeId> operands;
    while (line.peek() == '%') {
      VKF_TRY(operand, reference(line));
      operands.push_back(operand);
    }
    if (op.arity == 0 && !operands.empty())
      return fail("'{}' takes no operands, but %{} was given", op.name, operands[0]);
    VKF_TRY(type, type_of(line));
    auto added = build({&op, std::move(operands), type, std::move(payload)}, literal);
    if (!added) return located(std::move(added).error());
    const TensorType& inferred = graph_.node(*added).type;
    if (!(inferred == type))
      return fail("'{}' gives {}, but {} is declared", op.name, to_text(inferred), to_text(type));
    return {};
  }

  /// The attributes that stand before the operands.
  Result<Payload> payload_of(Line& line, const ops::OpRow& op) {
    if (op.cls == ops::OpClass::input) {
      const auto quoted = line.quoted();
      if (!quoted) return fail("expected a quoted input name, found '{}'", line.shown());
      return Payload(InputPayload{*quoted});
    }
    Payload payload = NoPayload{};
    if (op.role == ops::Role::iota) payload = IotaPayload{};
    if (op.role == ops::Role::random) payload = RandomPayload{};
    if (const Payload* form = payload_form(op)) payload = *form;
    Result<void> read;
    each_attribute(payload, [&](std::string_view key, auto& value) {
      if (read.ok()) read = read_attribute(line, key, value);
    });
    if (!read.ok()) return std::move(read).error();
    return payload;
  }

  template <typename T>
  Result<void> read_attribute(Line& line, std::string_view key, T& value) {
    VKF_TRY(number, attribute<T>(line, key));
    value = number;
    return {};
  }

  template <typename T>
  Result<void> read_attribute(Line& line, std::string_view key, std::vector<T>& list) {
    VKF_CHECK_OK(key_of(line, key));
    if (!line.accept("[")) return fail("expected a list '[...]' for '{}', found '{}'", key, line.shown());
    while (!line.accept("]")) {
      VKF_TRY(number, whole<T>(line, key));
      list.push_back(number);
      if (!line.accept(",") && line.peek() != ']')
        return fail("expected ',' or ']' in the list '{}', found '{}'", key, line.shown());
    }
    return {};
  }

  Result<void> read_attribute(Line& line, std::string_view key, bool& value) {
    VKF_CHECK_OK(key_of(line, key));
    const std::string token = line.word();
    if (token != "true" && token != "false")
      return fail("expected true or false for '{}', found '{}'", key, shown_part(token));
    value = token == "true";
    return {};
  }

  Result<void> read_attribute(Line& line, std::string_view key, std::string& value) {
    VKF_CHECK_OK(key_of(line, key));
    auto text = line.quoted();
    if (!text) return fail("expected quoted text for '{}', found '{}'", key, line.shown());
    value = *std::move(text);
    return {};
  }

  Result<void> read_attribute(Line& line, std::string_view key, ScatterMode& value) {
    VKF_CHECK_OK(key_of(line, key));
    const std::string token = line.word();
    const auto mode = scatter_mode_named(token);
    if (!mode) return fail("'{}' is not a mode of scatter: set, add, mul, max or min", shown_part(token));
    value = *mode;
    return {};
  }

  Result<NodeId> build(Node node, std::string_view literal) {
    if (node.op->cls == ops::OpClass::constant) {
      VKF_TRY(bytes, constant(literal, node.type.dtype));
      node.payload = ConstantPayload{bytes};
    }
    std::vector<NodeId> operands = std::move(node.operands);
    return append_copy(graph_, node, std::move(operands));
  }

  Result<TensorType> type_of(Line& line) {
    if (!line.accept(":")) return fail("expected ': type', found '{}'", line.shown());
    const std::string token = line.word();
    const auto dtype = dtype_named(token);
    if (!dtype) return fail("'{}' is not a dtype", shown_part(token));
    if (!line.accept("[")) return fail("expected a shape '[...]', found '{}'", line.shown());
    Shape shape;
    while (!line.accept("]")) {
      VKF_TRY(one, dimension(line));
      shape.push_back(one);
      if (!line.accept(",") && line.peek() != ']')
        return fail("expected ',' or ']' in a shape, found '{}'", line.shown());
    }
    return TensorType{*dtype, std::move(shape)};
  }

  /// The name of a symbol: one word, or quoted.
  Result<std::string> symbol(Line& line) {
    if (line.peek() != '"') return line.word();
    auto name = line.quoted();
    if (!name) return fail("expected a closing quote in '{}'", line.shown());
    return *std::move(name);
  }

  Result<Dim> dimension(Line& line) {
    const bool quoted = line.peek() == '"';
    VKF_TRY(token, symbol(line));
    if (!quoted && token.empty()) return fail("expected a dimension or ']', found '{}'", line.shown());
    if (quoted || std::isalpha(static_cast<unsigned char>(token.front())) != 0 || token.front() == '_') {
      const auto facts = facts_.find(token);
      return Dim::any(token, facts == facts_.end() ? DimFacts{} : facts->second);
    }
    const auto size = number<std::int64_t>(token);
    if (!size || *size < 0) return fail("'{}' is not a dimension", shown_part(token));
    return Dim(*size);
  }

  Result<Bytes> constant(std::string_view literal, DType dtype) {
    while (literal.ends_with(' ')) literal.remove_suffix(1);
    auto bytes = std::make_shared<std::vector<std::byte>>();
    if (literal.starts_with("0x")) {
      if (literal.size() % 2 != 0) return invalid("the constant has an odd number of hexadecimal digits.");
      for (std::size_t i = 2; i < literal.size(); i += 2) {
        unsigned value = 0;
        const auto parsed = std::from_chars(literal.data() + i, literal.data() + i + 2, value, 16);
        if (parsed.ptr != literal.data() + i + 2) return invalid("'{}' is not hexadecimal.", literal.substr(i, 2));
        bytes->push_back(static_cast<std::byte>(value));
      }
      return Bytes(bytes);
    }
    if (!literal.starts_with("{") || !literal.ends_with("}"))
      return invalid("expected '{{...}}' or 0x..., found '{}'.", shown_part(literal));
    Line list(literal.substr(1, literal.size() - 2));
    while (!list.done()) {
      VKF_CHECK_OK(element(list.word(), dtype, *bytes));
      if (!list.accept(",") && !list.done()) return invalid("expected ',' in a constant, found '{}'.", list.shown());
    }
    return Bytes(bytes);
  }

  static Result<void> element(const std::string& token, DType dtype, std::vector<std::byte>& bytes) {
    if (is_float(dtype)) {
      const auto value = number<double>(token);
      if (!value) return invalid("'{}' is not a number.", shown_part(token));
      encode(dtype, *value, bytes);
    } else if (dtype == DType::u64) {
      const auto value = number<std::uint64_t>(token);
      if (!value) return invalid("'{}' is not a u64.", shown_part(token));
      encode_int(dtype, static_cast<std::int64_t>(*value), bytes);
    } else {
      const auto value = number<std::int64_t>(token);
      if (!value || ops::wrap(dtype, *value) != *value)
        return invalid("'{}' is not a value of {}.", shown_part(token), name_of(dtype));
      encode_int(dtype, *value, bytes);
    }
    return {};
  }

  /// Whether its payload is GLSL.
  static bool has_own_code(const ops::OpRow& op) {
    const Payload* form = payload_form(op);
    return form != nullptr &&
           (std::holds_alternative<CustomPayload>(*form) || std::holds_alternative<KernelPayload>(*form));
  }

  std::string_view text_;
  const ParseOptions options_;
  int number_ = 0;
  Graph graph_;
  std::map<std::string, DimFacts> facts_;
};

}  // namespace

Result<Graph> parse(std::string_view text, const ParseOptions& options) { return Parser(text, options).run(); }

}  // namespace vkfuse::ir
