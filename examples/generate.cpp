// Generates tokens with a model in the manner of Llama, whose weights are random numbers of a seed: caches of keys and
// values stay in their buffers, their length is data, and one program serves every token. The host reads a token of
// each step and does nothing else.
//
//     build/release/generate --layers 4 --width 512 --prompt 40 --tokens 64
//
// docs/generation.md says what happens.
#include <vkfuse/vkfuse.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace vkfuse;
using Buffers = std::map<std::string, Buffer, std::less<>>;

struct Options {
  std::int64_t layers = 2, width = 256, heads = 4, key_heads = 2, inner = 704, vocabulary = 1024;
  std::int64_t capacity = 256, prompt = 40, tokens = 32, chunk = 16, top_k = 0, seed = 1, half = 0;
  double temperature = 0, top_p = 1, min_p = 0, penalty = 1;

  [[nodiscard]] std::int64_t head() const { return width / heads; }
  [[nodiscard]] DType dtype() const { return half != 0 ? DType::f16 : DType::f32; }
};

Error failure(const std::string& text) { return {ErrorCode::invalid_argument, text, {}}; }

Result<Options> read_options(int argc, char** argv) {
  Options o;
  const std::map<std::string, std::int64_t*> whole = {
      {"--layers", &o.layers}, {"--width", &o.width},   {"--heads", &o.heads},           {"--key-heads", &o.key_heads},
      {"--inner", &o.inner},   {"--prompt", &o.prompt}, {"--vocabulary", &o.vocabulary}, {"--capacity", &o.capacity},
      {"--tokens", &o.tokens}, {"--chunk", &o.chunk},   {"--top-k", &o.top_k},           {"--seed", &o.seed},
      {"--half", &o.half}};
  const std::map<std::string, double*> real = {
      {"--temperature", &o.temperature}, {"--top-p", &o.top_p}, {"--min-p", &o.min_p}, {"--penalty", &o.penalty}};
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return failure("The option '" + name + "' has no value.");
    char* end = nullptr;
    if (const auto found = whole.find(name); found != whole.end()) {
      *found->second = std::strtoll(argv[i + 1], &end, 10);
    } else if (const auto other = real.find(name); other != real.end()) {
      *other->second = std::strtod(argv[i + 1], &end);
    } else {
      return failure("There is no option '" + name + "'.");
    }
    if (end == argv[i + 1] || *end != 0)
      return failure("The value of the option '" + name + "' is '" + argv[i + 1] + "', which is no number.");
  }
  for (const std::int64_t size :
       {o.layers, o.width, o.heads, o.key_heads, o.inner, o.vocabulary, o.capacity, o.prompt, o.tokens, o.chunk}) {
    if (size < 1 || size > (std::int64_t{1} << 26))
      return failure("Sizes are 1 to 67108864, but one is " + std::to_string(size) + ".");
  }
  if (o.width % o.heads != 0 || o.head() % 2 != 0 || o.heads % o.key_heads != 0)
    return failure("The " + std::to_string(o.heads) + " heads must divide the width " + std::to_string(o.width) +
                   " into even sizes, and " + std::to_string(o.key_heads) + " key heads must divide them.");
  if (o.chunk > o.capacity)
    return failure("A chunk of " + std::to_string(o.chunk) + " tokens is longer than the cache of " +
                   std::to_string(o.capacity) + " positions.");
  return o;
}

/// Names and shapes of what is read again for each token.
std::map<std::string, Shape> weights_of(const Options& o) {
  std::map<std::string, Shape> all{{"embedding", {o.vocabulary, o.width}}, {"logits", {o.width, o.vocabulary}}};
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string layer = std::to_string(i) + ".";
    all[layer + "query"] = {o.width, o.width};
    all[layer + "key"] = all[layer + "value"] = {o.width, o.key_heads * o.head()};
    all[layer + "output"] = {o.width, o.width};
    all[layer + "gate"] = all[layer + "up"] = {o.width, o.inner};
    all[layer + "down"] = {o.inner, o.width};
  }
  return all;
}

std::int64_t elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const Dim& dim : shape) count *= dim.size();
  return count;
}

Shape cache_shape(const Options& o) { return {1, o.key_heads, o.capacity, o.head()}; }

// --- the model -------------------------------------------------------------------------------------------------------

/// A step of `count` tokens from the position `start` on, the last of which is number `last`.
struct Step {
  const Options& o;
  std::int64_t count;
  std::vector<Tensor> outputs = {};
  CompileOptions options = {};
  std::optional<Tensor> cosine = {}, sine = {};  ///< at the positions of the tokens

  [[nodiscard]] Tensor weight(const std::string& name) const {
    return Tensor::input(name, o.dtype(), weights_of(o).at(name));
  }
  Tensor output(const std::string& name, const Tensor& value) {
    outputs.push_back(value);
    options.output_names.push_back(name);
    return value;
  }

  Tensor attended(const Tensor& x, const std::string& layer, const Tensor& start) {
    const auto heads = [&](const char* name, std::int64_t many, bool turns) {
      Tensor each = matmul(x, weight(layer + name)).reshape({count, many, o.head()});
      if (turns) each = rotary(each.cast(DType::f32), *cosine, *sine).cast(o.dtype());
      return each.permute({1, 0, 2}).unsqueeze(0);
    };
    const auto cache = [&](const char* name, const Tensor& rows) {
      const Tensor held = Tensor::input(layer + name, o.dtype(), cache_shape(o));
      return output(layer + name + "'", held.update_rows(start, rows, 2));
    };
    const Tensor keys = cache("keys", heads("key", o.key_heads, true));
    const Tensor values = cache("values", heads("value", o.key_heads, false));
    const Tensor seen = cached_attention(heads("query", o.heads, true), keys, values, start);
    return matmul(seen.permute({0, 2, 1, 3}).reshape({count, o.width}), weight(layer + "output"));
  }

  /// What the logits of the last token become.
  Tensor chosen(Tensor logits, const Tensor& tokens, const Tensor& start, const Tensor& last) {
    if (o.penalty != 1) {
      // The host has marked the prompt; each later token is marked in place.
      Tensor seen = Tensor::input("seen", DType::boolean, {1, o.vocabulary});
      const Tensor yes = Tensor::scalar(DType::boolean, 1).reshape({1, 1});
      if (count == 1) seen = output("seen'", seen.update_rows(tokens.reshape({}), yes, 1));
      logits = repetition_penalty(logits, seen, o.penalty);
    }
    if (o.temperature == 0) return greedy(logits);
    const Tensor seed = start + last + Tensor::scalar_int(DType::i32, o.seed * 65536 % 2000000011);
    return sample(logits, seed, {o.temperature, o.top_k, o.top_p, o.min_p});
  }

  Result<Executable> compile_on(const Device& device) {
    const Tensor tokens = Tensor::input("tokens", DType::i32, {count});
    const Tensor start = Tensor::input("start", DType::i32, {1}), last = Tensor::input("last", DType::i32, {1});
    const Tensor position = start + Tensor::iota(DType::i32, {count}, 0);
    const auto angles = [&](const char* name) {
      return Tensor::input(name, DType::f32, {o.capacity, o.head() / 2}).gather(position, 0).unsqueeze(1);
    };
    cosine = angles("cosine");
    sine = angles("sine");
    Tensor x = weight("embedding").gather(tokens, 0);
    for (std::int64_t i = 0; i < o.layers; ++i) {
      const std::string layer = std::to_string(i) + ".";
      x = x + attended(rms_norm(x), layer, start.reshape({}));
      const Tensor y = rms_norm(x);
      const Tensor inner = silu(matmul(y, weight(layer + "gate"))) * matmul(y, weight(layer + "up"));
      x = x + matmul(inner, weight(layer + "down"));
    }
    const Tensor logits = matmul(rms_norm(x.gather(last, 0)), weight("logits")).cast(DType::f32);
    output("token", chosen(logits, tokens, start, last));
    output("start'", start + last + Tensor::scalar_int(DType::i32, 1));
    return compile(device, outputs, options);
  }
};

// --- its memory ------------------------------------------------------------------------------------------------------

template <typename T>
Result<Buffer> upload(const Device& device, const std::vector<T>& data) {
  auto buffer = device.allocate(data.size() * sizeof(T));
  if (!buffer) return buffer;
  if (auto written = buffer->write(std::as_bytes(std::span(data))); !written) return Error(written.error());
  return buffer;
}

/// Before anything is allocated: weights and caches fit, or how long a cache would.
Result<void> check_room(const Device& device, const Options& o) {
  const std::int64_t end = o.prompt + o.tokens;
  if (end > o.capacity)
    return failure("The prompt has " + std::to_string(o.prompt) + " tokens and " + std::to_string(o.tokens) +
                   " are to follow, but the cache holds " + std::to_string(o.capacity) + " positions.");
  const auto width = o.half != 0 ? 2.0 : 4.0;
  double weights = 0;
  for (const auto& [name, shape] : weights_of(o)) weights += static_cast<double>(elements(shape)) * width;
  const double position =
      2.0 * width * static_cast<double>(o.layers * o.key_heads * o.head()) + 8.0 * static_cast<double>(o.head() / 2);
  const auto all = static_cast<double>(device.description().memory_bytes);
  if (weights + position * static_cast<double>(o.capacity) <= all) return {};
  char text[200];
  std::snprintf(text, sizeof(text),
                "A cache of %lld positions takes %.0f bytes beside %.0f bytes of weights, and the device has %.0f: "
                "%.0f positions fit.",
                static_cast<long long>(o.capacity), position * static_cast<double>(o.capacity), weights, all,
                std::max(0.0, std::floor((all - weights) / position)));
  return failure(text);
}

/// Random numbers that the device makes, a program for each shape.
Result<Buffers> make_weights(const Device& device, const Options& o) {
  Buffers made;
  std::map<std::string, Executable> programs;
  std::int32_t number = static_cast<std::int32_t>(o.seed % 65536) * 4096;
  for (const auto& [name, shape] : weights_of(o)) {
    const std::string key = std::to_string(shape[0].size()) + " " + std::to_string(shape[1].size());
    const double deviation = name == "embedding" ? 1 : 2 / std::sqrt(static_cast<double>(shape[0].size()));
    if (!programs.contains(key + name.substr(0, 9))) {
      const Tensor numbers = random_normal(shape, Tensor::input("seed", DType::i32, {1})) * deviation;
      auto program = compile(device, {numbers.cast(o.dtype())});
      if (!program) return std::move(program).error();
      programs.emplace(key + name.substr(0, 9), *std::move(program));
    }
    auto seed = upload(device, std::vector<std::int32_t>{++number});
    auto buffer = device.allocate(static_cast<std::uint64_t>(elements(shape)) * (o.half != 0 ? 2 : 4));
    if (!seed) return std::move(seed).error();
    if (!buffer) return std::move(buffer).error();
    auto run = programs.at(key + name.substr(0, 9)).submit({.inputs = {{"seed", *seed}}, .outputs = {{"y", *buffer}}});
    if (!run) return std::move(run).error();
    if (auto waited = run->wait(); !waited) return Error(waited.error());
    made.emplace(name, *buffer);
  }
  return made;
}

Result<void> add_tables(const Device& device, const Options& o, Buffers& inputs) {
  for (const bool sine : {false, true}) {
    std::vector<float> table;
    for (std::int64_t position = 0; position < o.capacity; ++position) {
      for (std::int64_t i = 0; i < o.head() / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(o.head()));
        table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
    }
    auto buffer = upload(device, table);
    if (!buffer) return Error(buffer.error());
    inputs.emplace(sine ? "sine" : "cosine", *buffer);
  }
  return {};
}

/// Caches are inputs and outputs in one buffer. What is in them before does not matter.
Result<void> add_caches(const Device& device, const Options& o, Buffers& inputs, Buffers& outputs) {
  const auto add = [&](const std::string& name, std::uint64_t bytes) -> Result<void> {
    auto buffer = device.allocate(bytes);
    if (!buffer) return Error(buffer.error());
    inputs.emplace(name, *buffer);
    outputs.emplace(name + "'", *buffer);
    return {};
  };
  for (std::int64_t i = 0; i < o.layers; ++i) {
    for (const char* name : {".keys", ".values"}) {
      const std::int64_t bytes = elements(cache_shape(o)) * (o.half != 0 ? 2 : 4);
      if (auto added = add(std::to_string(i) + name, static_cast<std::uint64_t>(bytes)); !added) return added;
    }
  }
  return o.penalty == 1 ? Result<void>() : add("seen", static_cast<std::uint64_t>(o.vocabulary));
}

// --- the loop --------------------------------------------------------------------------------------------------------

/// A token and its position, which one step leaves for the next: two of these take turns, so that a step never writes
/// what it reads.
struct Turn {
  Buffer token, start;
};

struct Run {
  const Options& o;
  Buffers inputs, outputs;
  Turn turns[2];
  Buffer zero;

  Result<void> step(const Executable& program, const Buffer& tokens, const Buffer& start, const Buffer& last,
                    const Turn& to, bool is_prompt) const {
    Bindings bindings{.inputs = inputs, .outputs = outputs};
    bindings.inputs.insert({{"tokens", tokens}, {"start", start}, {"last", last}});
    bindings.outputs.insert({{"token", to.token}, {"start'", to.start}});
    if (is_prompt) bindings.outputs.erase("seen'");
    auto run = program.submit(bindings);
    if (!run) return Error(run.error());
    return run->wait();
  }

  Result<void> mark(const std::vector<std::int32_t>& prompt) const {
    std::vector<std::byte> marks(static_cast<std::size_t>(o.vocabulary));
    for (const std::int32_t token : prompt) marks[static_cast<std::size_t>(token)] = std::byte{1};
    return inputs.at("seen").write(marks);
  }

  Result<void> read_prompt(const Device& device, const Executable& program, const std::vector<std::int32_t>& prompt) {
    if (o.penalty != 1) {
      if (auto marked = mark(prompt); !marked) return marked;
    }
    for (std::size_t done = 0; done < prompt.size(); done += static_cast<std::size_t>(o.chunk)) {
      std::vector<std::int32_t> part(static_cast<std::size_t>(o.chunk), 0);
      const std::size_t count = std::min(part.size(), prompt.size() - done);
      std::copy_n(prompt.begin() + static_cast<std::ptrdiff_t>(done), count, part.begin());
      auto tokens = upload(device, part);
      auto start = upload(device, std::vector<std::int32_t>{static_cast<std::int32_t>(done)});
      auto last = upload(device, std::vector<std::int32_t>{static_cast<std::int32_t>(count) - 1});
      for (const auto* made : {&tokens, &start, &last}) {
        if (!*made) return Error(made->error());
      }
      if (auto ran = step(program, *tokens, *start, *last, turns[0], true); !ran) return ran;
    }
    return {};
  }

  Result<std::vector<std::int32_t>> generate(const Executable& program) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0;; ++i) {
      const Turn& from = turns[i % 2];
      std::int32_t token = 0;
      if (auto read = from.token.read(std::as_writable_bytes(std::span(&token, 1))); !read) return Error(read.error());
      tokens.push_back(token);
      if (i + 1 == o.tokens) return tokens;
      if (auto ran = step(program, from.token, from.start, zero, turns[(i + 1) % 2], false); !ran)
        return Error(ran.error());
    }
  }
};

Result<Run> prepare(const Device& device, const Options& o) {
  Run run{o, {}, {}, {}, {}};
  auto weights = make_weights(device, o);
  if (!weights) return std::move(weights).error();
  run.inputs = *std::move(weights);
  if (auto added = add_tables(device, o, run.inputs); !added) return Error(added.error());
  if (auto added = add_caches(device, o, run.inputs, run.outputs); !added) return Error(added.error());
  for (Buffer* one : {&run.turns[0].token, &run.turns[0].start, &run.turns[1].token, &run.turns[1].start, &run.zero}) {
    auto buffer = upload(device, std::vector<std::int32_t>{0});
    if (!buffer) return std::move(buffer).error();
    *one = *buffer;
  }
  return run;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<void> report(const Device& device, const Options& o) {
  if (auto room = check_room(device, o); !room) return room;
  std::printf("device: %s\n", device.description().name.c_str());
  Step prompt_step{o, o.chunk}, token_step{o, 1};
  auto for_prompt = prompt_step.compile_on(device), for_token = token_step.compile_on(device);
  if (!for_prompt) return Error(for_prompt.error());
  if (!for_token) return Error(for_token.error());
  auto run = prepare(device, o);
  if (!run) return Error(run.error());
  std::vector<std::int32_t> prompt;
  std::mt19937 random(static_cast<std::uint32_t>(o.seed));
  for (std::int64_t i = 0; i < o.prompt; ++i)
    prompt.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(o.vocabulary)));
  Result<void> read;
  Result<std::vector<std::int32_t>> tokens = std::vector<std::int32_t>();
  const double prompt_s = seconds_of([&] { read = run->read_prompt(device, *for_prompt, prompt); });
  if (!read) return read;
  const double token_s = seconds_of([&] { tokens = run->generate(*for_token); });
  if (!tokens) return Error(tokens.error());
  std::printf("tokens:");
  for (const std::int32_t token : *tokens) std::printf(" %d", token);
  std::uint64_t bytes = 0;
  for (const auto& [name, buffer] : run->inputs) bytes += buffer.size();
  std::printf("\na step: %d kernels (%d of a chunk)\n", for_token->kernel_count(), for_prompt->kernel_count());
  std::printf("prompt: %.1f tokens/s\n", static_cast<double>(o.prompt) / prompt_s);
  std::printf("generation: %.1f tokens/s\n", static_cast<double>(o.tokens - 1) / token_s);
  std::printf("memory: %.1f MB of weights and caches\n", static_cast<double>(bytes) * 1e-6);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = read_options(argc, argv);
  if (!options) {
    std::fprintf(stderr, "%s\n", options.error().text().c_str());
    return 2;
  }
  auto device = Device::open();
  if (!device) {
    std::fprintf(stderr, "%s\n", device.error().text().c_str());
    return 2;
  }
  if (const auto done = report(*device, *options); !done) {
    std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return 1;
  }
  return 0;
}
