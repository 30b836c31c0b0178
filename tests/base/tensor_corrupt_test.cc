// Damaged and hostile tensor files: each gives a FileError that says what and where; then thousands of
// mutations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void spill(const Path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

std::string number(uint64_t n, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(n >> (8 * i));
  return out;
}
std::string safetensors(std::string_view header, size_t data_bytes) {
  return number(header.size(), 8).append(header) + std::string(data_bytes, '\1');
}
std::string npy(std::string_view header, size_t data_bytes) {
  return std::string("\x93NUMPY\1\0", 8) + number(header.size(), 2).append(header) +
         std::string(data_bytes, '\1');
}

// The error of a file with this content; it must name the file.
std::string failure(const std::string& name, std::string_view content) {
  const TempFolder folder;
  const Path path = folder.path() / name;
  spill(path, content);
  std::string seen;
  for (const Load load : {Load::copy, Load::map}) {
    try {
      (void)read_tensors(path, load);
      ADD_FAILURE() << "accepted: " << content.substr(0, 200);
    } catch (const FileError& e) {
      EXPECT_THAT(e.what(), HasSubstr(path.string()));
      EXPECT_FALSE(e.hint().empty());
      seen = e.what();
    }
  }
  return seen;
}
std::string bad(std::string_view header, size_t data_bytes) {
  return failure("x.safetensors", safetensors(header, data_bytes));
}
std::string bad_npy(std::string_view header, size_t data_bytes) {
  return failure("x.npy", npy(header, data_bytes));
}

TEST(CorruptSafetensors, HeaderLength) {
  EXPECT_THAT(failure("x.safetensors", ""), HasSubstr("too short"));
  EXPECT_THAT(failure("x.safetensors", "1234567"), HasSubstr("too short"));
  EXPECT_THAT(failure("x.safetensors", number(3, 8) + "{}"), HasSubstr("should have 3 bytes"));
  EXPECT_THAT(failure("x.safetensors", number(~uint64_t{0}, 8) + "{}"), HasSubstr("18446744073709551615"));
  EXPECT_THAT(failure("x.safetensors", number(~uint64_t{0} - 7, 8) + "{}"), HasSubstr("should have"));
  EXPECT_THAT(failure("x.safetensors", number(uint64_t{1} << 40, 8) + "{}"), HasSubstr("should have"));
  EXPECT_THAT(failure("x.safetensors", number(0, 8)), HasSubstr("header is wrong"));
}

// A file that really is as large as it says (sparse), with a header past the format's limit.
TEST(CorruptSafetensors, AbsurdHeaderIsNotRead) {
  const TempFolder folder;
  const Path path = folder.path() / "x.safetensors";
  spill(path, number(200'000'000, 8));
  std::filesystem::resize_file(path, 300'000'000);
  EXPECT_THROW((void)read_safetensors(path), FileError);
}

TEST(CorruptSafetensors, HeaderText) {
  EXPECT_THAT(bad("{", 0), HasSubstr("bad JSON"));
  EXPECT_THAT(bad("[]", 0), HasSubstr("must be an object"));
  EXPECT_THAT(bad("{\"a\":1}", 0), HasSubstr("a must be an object, but is 1"));
  EXPECT_THAT(bad("{\"\xff\":1}", 0), HasSubstr("UTF-8"));
  EXPECT_THAT(bad(std::string(100'000, '['), 0), HasSubstr("levels deep"));
  EXPECT_THAT(
      bad(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1),
      HasSubstr("stands twice"));
  EXPECT_THAT(bad(R"({"__metadata__":{"a":1}})", 0), HasSubstr("__metadata__.a must be text"));
  EXPECT_THAT(bad(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__ must be an object"));
}

TEST(CorruptSafetensors, Fields) {
  EXPECT_THAT(bad(R"({"w":{"shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("w.dtype is missing"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","data_offsets":[0,1]}})", 1), HasSubstr("w.shape is missing"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[1]}})", 1), HasSubstr("w.data_offsets is missing"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3),
              AllOf(HasSubstr("\"F6_E2M3\" cannot be used"), HasSubstr("BF16")));
  EXPECT_THAT(bad(R"({"w":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("w.dtype must be text"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1), HasSubstr("w.shape[0]"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
              HasSubstr("no countable size"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", 1),
              HasSubstr("w.shape[0]"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1), HasSubstr("[0,1,2]"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 1), HasSubstr("[-1,0]"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1), HasSubstr("[1,0]"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), HasSubstr("whole bytes"));
}

TEST(CorruptSafetensors, SizesThatOverflow) {
  EXPECT_THAT(bad(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
              AllOf(HasSubstr("tensor \"w\""), HasSubstr("no countable size")));
  EXPECT_THAT(bad(R"({"w":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
              HasSubstr("no countable size"));
  EXPECT_THAT(bad(R"({"w":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", 4),
              AllOf(HasSubstr("past the end of the file"), HasSubstr("tensor=w"), HasSubstr("offset=")));
}

TEST(CorruptSafetensors, Layout) {
  const auto two = [](int b1, int e1, int b2, int e2) {
    return R"({"a":{"dtype":"U8","shape":[)" + std::to_string(e1 - b1) + R"(],"data_offsets":[)" +
           std::to_string(b1) + "," + std::to_string(e1) + R"(]},"b":{"dtype":"U8","shape":[)" +
           std::to_string(e2 - b2) + R"(],"data_offsets":[)" + std::to_string(b2) + "," + std::to_string(e2) +
           "]}}";
  };
  const size_t start = 8 + two(0, 4, 4, 8).size();
  EXPECT_THAT(bad(two(0, 4, 4, 8), 7), AllOf(HasSubstr("tensor \"b\""), HasSubstr("past the end"),
                                             HasSubstr("offset=" + std::to_string(start + 4))));
  EXPECT_THAT(bad(two(0, 4, 4, 8), 9), HasSubstr("1 bytes at the end belong to no tensor"));
  EXPECT_THAT(bad(two(0, 4, 3, 8), 8), AllOf(HasSubstr("tensor \"b\""), HasSubstr("overlaps")));
  EXPECT_THAT(bad(two(0, 4, 0, 4), 4), HasSubstr("overlaps"));
  EXPECT_THAT(bad(two(0, 4, 5, 8), 8), HasSubstr("leaves a gap"));
  EXPECT_THAT(bad(two(1, 4, 4, 8), 8), AllOf(HasSubstr("tensor \"a\""), HasSubstr("leaves a gap")));
  EXPECT_THAT(bad(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              AllOf(HasSubstr("needs 8 bytes"), HasSubstr("span 4")));
}

TEST(CorruptSafetensors, BoolThatIsNone) {
  const std::string header = R"({"w":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
  const std::string content = number(header.size(), 8) + header + std::string("\1\0\2", 3);
  EXPECT_THAT(failure("x.safetensors", content),
              AllOf(HasSubstr("element 2 of a bool tensor is 2"),
                    HasSubstr("offset=" + std::to_string(content.size() - 1))));
}

TEST(CorruptNpy, Prefix) {
  EXPECT_THAT(failure("x.npy", ""), HasSubstr("does not begin"));
  EXPECT_THAT(failure("x.npy", "\x93NUMPX\1\0\1\0"), HasSubstr("does not begin"));
  EXPECT_THAT(failure("x.npy", std::string("\x93NUMPY\4\0\0\0\0\0", 12)), HasSubstr("version 4.0"));
  EXPECT_THAT(failure("x.npy", std::string("\x93NUMPY\1\0\xff\xff", 10)),
              HasSubstr("should have 65535 bytes"));
  EXPECT_THAT(failure("x.npy", std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)),
              HasSubstr("should have 4294967295"));
  EXPECT_THAT(failure("x.npy", std::string("\x93NUMPY\2\0\1\0", 10)), HasSubstr("should have"));
}

TEST(CorruptNpy, Header) {
  EXPECT_THAT(bad_npy("", 0), HasSubstr("'{' is missing"));
  EXPECT_THAT(bad_npy("{}", 0), HasSubstr("one of the keys"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, }", 4), HasSubstr("one of the keys"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'descr': '<f4', 'shape': (), }", 4), HasSubstr("stands twice"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", 4),
              HasSubstr("\"x\" is not known"));
  EXPECT_THAT(bad_npy("{'descr': '<f4, }", 4), HasSubstr("does not end"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': maybe, 'shape': ()}", 4),
              HasSubstr("True or False"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", 4),
              HasSubstr("',' is missing"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4), HasSubstr("negative"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4),
              HasSubstr("more follows"));
  EXPECT_THAT(bad_npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8),
              HasSubstr("\"|O\" cannot be used"));
  EXPECT_THAT(bad_npy("{'descr': '|i4', 'fortran_order': False, 'shape': (1,)}", 4),
              HasSubstr("cannot be used"));
}

TEST(CorruptNpy, Sizes) {
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7),
              AllOf(HasSubstr("f32[2] needs 8 bytes, the file has 7"), HasSubstr("tensor=x"),
                    HasSubstr("offset=65")));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9),
              HasSubstr("the file has 9"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1000000, 1000000)}", 4),
              HasSubstr("needs 4000000000000"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4),
              HasSubstr("no countable size"));
  EXPECT_THAT(bad_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4),
              HasSubstr("too large"));
}

// Bytes of `seed` changed, cut, doubled, or its digits replaced: what hostile files are made of.
std::string mutate(std::string text, std::mt19937& random) {
  const auto at = [&] { return random() % std::max<size_t>(text.size(), 1); };
  for (unsigned n = 1 + random() % 4; n > 0 && !text.empty(); --n) switch (random() % 7) {
      case 0:
        text[at()] = static_cast<char>(random());
        break;
      case 1:
        text[at()] ^= static_cast<char>(1 << random() % 8);
        break;
      case 2:
        text.resize(at());
        break;
      case 3:
        text.insert(at(), text.substr(at(), random() % 20));
        break;
      case 4:
        text.erase(at(), random() % 10);
        break;
      case 5:
        if (const auto digit = text.find_first_of("0123456789", at()); digit != text.npos)
          text.replace(digit, 1,
                       std::to_string(random() % 3 == 0 ? random() * uint64_t{1} << 31 : random() % 100));
        break;
      default:  // the length in front of the header
        text.replace(0, std::min<size_t>(8, text.size()),
                     number(text.size() - std::min<size_t>(8, text.size()) - random() % 3, 8));
    }
  return text;
}

// A file in memory, for thousands of writes to a disk take minutes.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  Path path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  bool fill(std::string_view text) const {
    return ftruncate(fd_, 0) == 0 &&
           pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  }

 private:
  int fd_;
};

// Whatever the bytes: tensors whose every byte can be read, or a FileError. (The sanitizer build looks on.)
template <class Read>
void expect_survives(Read read, const std::vector<std::string>& seeds, int cases) {
  std::mt19937 random(20240607);
  int accepted = 0, refused = 0;
  const MemoryFile file;
  const Path path = file.path();
  for (int i = 0; i < cases; ++i) {
    const std::string content = mutate(seeds[static_cast<size_t>(i) % seeds.size()], random);
    ASSERT_TRUE(file.fill(content));
    try {
      size_t total = 0;
      unsigned sum = 0;
      for (const HostTensor& t : read(path, i % 2 ? Load::copy : Load::map)) {
        total += t.bytes().size();
        for (const std::byte b : t.bytes()) sum += static_cast<unsigned>(b);
      }
      ASSERT_LE(total, 2 * content.size()) << "more than the file can hold; sum " << sum;
      ++accepted;
    } catch (const FileError& e) {
      ++refused;
      ASSERT_EQ(e.detail("path"), path.string());
      ASSERT_FALSE(e.to_json().empty());
    }
  }
  EXPECT_GT(accepted, cases / 100) << "the mutations are too wild to reach the data";
  EXPECT_GT(refused, cases / 4);
}

std::string data_file(const std::string& name) { return read_file(Path(TEST_DATA) / "tensors" / name); }

TEST(TensorFuzz, Safetensors) {
  expect_survives([](const Path& path, Load load) { return read_safetensors(path, load).tensors; },
                  {data_file("all.safetensors"), data_file("f4.safetensors"), data_file("none.safetensors"),
                   safetensors(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24)},
                  8000);
}

TEST(TensorFuzz, Npy) {
  expect_survives([](const Path& path, Load) { return std::vector{read_npy(path)}; },
                  {data_file("fortran.npy"), data_file("big_fortran.npy"), data_file("plain_b1.npy"),
                   data_file("scalar.npy"), data_file("version2.npy"), data_file("version3.npy"),
                   data_file("record.npy"), data_file("empty.npy")},
                  8000);
}

}  // namespace
}  // namespace tpubridge
