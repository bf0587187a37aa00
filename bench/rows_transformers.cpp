// Layers of transformers, as models of text, images and speech have them.
#include <fmt/format.h>

#include <cmath>

#include "network.hpp"
#include "row_groups.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// [batch, tokens, heads * size] as [batch, heads, tokens, size].
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.shape()[0], x.shape()[1], heads, -1}).permute({0, 2, 1, 3});
}
Tensor join_heads(const Tensor& x) { return x.permute({0, 2, 1, 3}).reshape({x.shape()[0], x.shape()[2], -1}); }

/// Attention with scores, mask and softmax written out, as models are exported: one op of a framework all the same.
Tensor written_attention(Network& network, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* mask) {
  Tensor scores = matmul(q, k.transpose()) * (1 / std::sqrt(static_cast<double>(q.shape()[3].size())));
  if (mask != nullptr) scores = scores + *mask;
  const Tensor weights = softmax(scores.cast(DType::f32), -1).cast(network.dtype());
  return network.op(matmul(weights, v));
}

/// Post-norm, as BERT: shape is [batch, tokens, heads of 64].
Built encoder(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t heads = shape[2].size(), width = 64 * heads;
  const Tensor x = network.input("x", {shape[0], shape[1], width});
  const Tensor q = split_heads(network.linear(x, width), heads);
  const Tensor k = split_heads(network.linear(x, width), heads);
  const Tensor v = split_heads(network.linear(x, width), heads);
  const Tensor mixed = network.linear(join_heads(written_attention(network, q, k, v, nullptr)), width);
  const Tensor middle = network.layer_norm(network.add(x, mixed));
  const Tensor wide = network.gelu_erf(network.linear(middle, 4 * width));
  return network.built({network.layer_norm(network.add(middle, network.linear(wide, width)))});
}

/// Pre-norm with one product for q, k and v, and a scale for each branch, as vision transformers.
Built vision(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t heads = shape[2].size(), width = 64 * heads;
  const Tensor x = network.input("x", {shape[0], shape[1], width});
  const Tensor joined = network.linear(network.layer_norm(x), 3 * width);
  const Tensor parts = joined.reshape({shape[0], shape[1], 3, heads, 64}).permute({2, 0, 3, 1, 4});
  const Tensor mixed = join_heads(network.op(attention(parts.select(0, 0), parts.select(0, 1), parts.select(0, 2))));
  const Tensor scaled = network.op(network.linear(mixed, width) * network.learnt("scale", {width}));
  const Tensor middle = network.add(x, scaled);
  const Tensor wide = network.gelu_erf(network.linear(network.layer_norm(middle), 4 * width));
  const Tensor again = network.op(network.linear(wide, width) * network.learnt("scale", {width}));
  return network.built({network.add(middle, again)});
}

/// The halves of each head turned by angles [tokens, size], in the form with a concatenation.
Tensor rotated(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  const std::int64_t size = x.shape()[3].size();
  const Tensor turned = concat({-x.slice(3, size / 2, size), x.slice(3, 0, size / 2)}, 3);
  return x * cosine + turned * sine;
}

/// Angles of the rotary embedding, and the mask of positions that is added to scores: made once for all layers.
struct Positions {
  Tensor cosine, sine, mask;

  Positions(Network& network, const Shape& shape, std::int64_t size)
      : cosine(network.input("cosine", {shape[1], size})),
        sine(network.input("sine", {shape[1], size})),
        mask(network.op(mask_of(network.dtype(), shape))) {}

  /// Where(later, the least f16, 0), stretched over the batch.
  static Tensor mask_of(DType dtype, const Shape& shape) {
    const Dim tokens = shape[1];
    const Tensor later = gt(Tensor::iota(DType::i64, {1, tokens}, 1), Tensor::iota(DType::i64, {tokens, 1}, 0));
    const Tensor added = select(later, Tensor::scalar(dtype, -65504), Tensor::scalar(dtype, 0));
    return added.reshape({1, 1, tokens, tokens}).broadcast_to({shape[0], 1, tokens, tokens});
  }
};

/// [batch, heads, ...] with each head `times` times, as neighbours.
Tensor repeated(const Tensor& x, std::int64_t times) {
  const Shape& shape = x.shape();
  return x.reshape({shape[0], shape[1], 1, shape[2], shape[3]})
      .broadcast_to({shape[0], shape[1], times, shape[2], shape[3]})
      .reshape({shape[0], shape[1].size() * times, shape[2], shape[3]});
}

Tensor decoder_layer(Network& network, const Tensor& x, const Positions& at, std::int64_t heads) {
  const std::int64_t width = x.shape()[2].size(), size = width / heads;
  const std::int64_t key_heads = std::max<std::int64_t>(1, heads / 4);
  const Tensor normal = network.rms_norm(x);
  const auto turned = [&](std::int64_t count) {
    return network.op(rotated(split_heads(network.linear(normal, count * size, false), count), at.cosine, at.sine));
  };
  const Tensor q = turned(heads), k = repeated(turned(key_heads), heads / key_heads);
  const Tensor v = repeated(split_heads(network.linear(normal, key_heads * size, false), key_heads), heads / key_heads);
  const Tensor mixed = join_heads(written_attention(network, q, k, v, &at.mask));
  const Tensor middle = network.add(x, network.linear(mixed, width, false));
  const Tensor after = network.rms_norm(middle);
  const Tensor gate = network.silu(network.linear(after, 7 * width / 2, false));
  const Tensor wide = network.op(gate * network.linear(after, 7 * width / 2, false));
  return network.add(middle, network.linear(wide, width, false));
}

/// Two layers as Llama has them: RMS norm, rotary embedding, four heads of q to one of k and v, a gate, and one mask.
/// Shape is [batch, tokens, heads of 128].
Built decoder(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t heads = shape[2].size();
  const Tensor x = network.input("x", {shape[0], shape[1], 128 * heads});
  const Positions at(network, shape, 128);
  const Tensor first = decoder_layer(network, x, at, heads);
  return network.built({decoder_layer(network, first, at, heads)});
}

/// Over [batch, channels, length]; what is read beyond the ends is 0.
Tensor conv_of_three(Network& network, const Tensor& x, std::int64_t features, std::int64_t stride) {
  const Tensor w = network.learnt("weight", {features, x.shape()[1], 3});
  const Tensor sum = conv(x, w, {.strides = {stride}, .low = {1}, .high = {1}});
  return network.op(sum + network.learnt("bias", {features, 1}));
}

/// The stem of Whisper's encoder, two convolutions over a spectrum of 128 bands of which the second halves its length,
/// and one layer. Shape is [batch, positions, heads of 64].
Built speech(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t heads = shape[2].size(), width = 64 * heads;
  const Tensor spectrum = network.input("spectrum", {shape[0], 128, 2 * shape[1].size()});
  const Tensor early = network.gelu_erf(conv_of_three(network, spectrum, width, 1));
  const Tensor late = network.gelu_erf(conv_of_three(network, early, width, 2));
  const Tensor x = network.op(late.permute({0, 2, 1}) + network.learnt("position", {shape[1], width}));
  const Tensor normal = network.layer_norm(x);
  const Tensor q = split_heads(network.op(network.linear(normal, width) * 0.125), heads);
  const Tensor k = split_heads(network.linear(normal, width, false), heads);
  const Tensor v = split_heads(network.linear(normal, width), heads);
  const Tensor mixed = network.op(matmul(softmax(matmul(q, k.transpose()), -1), v));
  const Tensor middle = network.add(x, network.linear(join_heads(mixed), width));
  const Tensor wide = network.gelu_erf(network.linear(network.layer_norm(middle), 4 * width));
  return network.built({network.add(middle, network.linear(wide, width))});
}

}  // namespace

std::vector<Row> transformer_rows() {
  std::vector<Row> all;
  const auto add = [&](std::string name, DType dtype, std::vector<std::int64_t> full, auto build, bool named) {
    name += ' ' + std::string(vkfuse::name_of(dtype));
    all.push_back({std::move(name),
                   "models",
                   dtype,
                   std::move(full),
                   build,
                   {.divide = {0, 2, 1}, .named = named, .small = "weight", .model = true}});
  };
  struct Form {
    const char* name;
    Built (*build)(DType, const Shape&);
    std::int64_t heads;
    std::int64_t in_suite;  ///< the number of tokens that the full suite measures
  };
  const Form forms[] = {{"encoder", encoder, 16, 577}, {"decoder", decoder, 8, 1500}, {"vision", vision, 16, 197}};
  for (const Form& form : forms) {
    for (const std::int64_t tokens : {197, 577, 1500, 4097}) {
      // About as many rows of products each; fewer heads where scores would take the reference gigabytes.
      const std::int64_t batch = std::max<std::int64_t>(1, (form.heads == 8 ? 2000 : 3200) / tokens);
      const std::int64_t heads = tokens == 4097 ? 8 : form.heads;
      add(fmt::format("{} {}", form.name, tokens), DType::f16, {batch, tokens, heads}, form.build,
          tokens != form.in_suite);
    }
  }
  add("speech 1500", DType::f16, {1, 1500, 20}, speech, false);
  return all;
}

}  // namespace vkfuse::bench
