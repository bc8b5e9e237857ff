// An input is a gzip or zstd file, maybe damaged. It is rejected with a UserError or read, with the same
// result for buffers of every size.
#include <array>

#include <zlib.h>
#include <zstd.h>

#include "data/bytes.h"
#include "memory_file.h"
#include "target.h"

namespace fuzz::compressed {
namespace {

using namespace std::string_literals;

std::string decompressed(const std::filesystem::path& path, std::size_t piece) {
  const auto reader = dpo::data::open_bytes(path);
  std::string text, buffer(piece, '\0');
  while (const std::size_t count = reader->read(buffer)) {
    if (count > piece) fail("more bytes than the buffer has");
    text.append(buffer, 0, count);
  }
  return text;
}

bool try_input(std::string_view input) {
  const MemoryFile file(input);
  std::string whole, by_pieces;
  const bool accepted = accepts([&] { whole = decompressed(file.path(), 1 << 16); });
  if (whole.size() > 1 << 20) return accepted;  // a bomb, of which the reader accepts 64 MiB
  const bool again = accepts([&] { by_pieces = decompressed(file.path(), 1 + input.size() % 61); });
  if (accepted != again || whole != by_pieces) fail("another buffer size gives another text");
  return accepted;
}

std::string text_of(Mutator& mutator) {
  std::string text;
  for (std::size_t lines = mutator.below(40); lines > 0; --lines)
    text += "{\"prompt\": \"" + std::string(mutator.below(200), static_cast<char>('a' + mutator.below(4))) +
            "\", \"chosen\": \"" + std::to_string(mutator.below(1000)) + "\"}\n";
  return text;
}

std::string gzip(const std::string& text, int level) {
  z_stream stream{};
  constexpr int kGzip = 16, kMemory = 8;
  if (deflateInit2(&stream, level, Z_DEFLATED, MAX_WBITS + kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    fail("deflateInit2");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) fail("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text, int level) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level);
  if (ZSTD_isError(size)) fail("ZSTD_compress");
  out.resize(size);
  return out;
}

// Format keywords: starts of members and frames, skippable frames, flags of gzip's header, the largest
// window.
const std::string kTokens[] = {"\x1f\x8b\x08\0\0\0\0\0\0\3"s,
                               "\x1f\x8b\x08\x1f",
                               "\x28\xb5\x2f\xfd",
                               "\x28\xb5\x2f\xfd\0\xff"s,
                               "\x28\xb5\x2f\xfd\x20\0\1\0\0"s,
                               "\x50\x2a\x4d\x18\4\0\0\0abcd"s,
                               "\x50\x2a\x4d\x18\xff\xff\xff\xff",
                               "\0\0\0\0"s,
                               "\xff\xff\xff\xff",
                               "\3\0"s,
                               "\1\0\0\xff\xff"s,
                               "version https://git-lfs.github.com/spec/"};

template <std::string (*compress)(const std::string&, int)>
std::string make(Mutator& mutator) {
  std::string file;
  for (std::size_t members = 1 + mutator.below(3); members > 0; --members)
    file += compress(text_of(mutator), static_cast<int>(mutator.below(7)));
  mutator.mutate(file, kTokens, 4);
  return file;
}

const Registered kGzipTarget({"gzip", make<gzip>, try_input});
const Registered kZstdTarget({"zstd", make<zstd>, try_input});

}  // namespace
}  // namespace fuzz::compressed
