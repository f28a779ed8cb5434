// main() of a fuzz target where there is no libFuzzer: every file of the corpus, then seeded mutations of them.
//
//   fuzz_NAME --runs N [--dictionary FILE] FILE-OR-FOLDER...
//
// Equal arguments give equal inputs. What is under way is written to fuzz_NAME.input in the current folder when it
// crashes, and `fuzz_NAME fuzz_NAME.input` repeats it.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/random.h"
#include "tests/fuzz/fuzz_target.h"

namespace hone::fuzz {
namespace {

namespace fs = std::filesystem;

const std::string* g_input = nullptr;
std::string g_crash_file;

// Only what a signal handler may call.
void on_crash(int signal) {
  const int fd = open(g_crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0 && g_input != nullptr) (void)!write(fd, g_input->data(), g_input->size());
  if (fd >= 0) close(fd);
  constexpr char kSaid[] = "the input is in ";
  (void)!write(STDERR_FILENO, kSaid, sizeof kSaid - 1);
  (void)!write(STDERR_FILENO, g_crash_file.data(), g_crash_file.size());
  (void)!write(STDERR_FILENO, "\n", 1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void run(const std::string& input) {
  g_input = &input;
  (void)LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  g_input = nullptr;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Lines of libFuzzer's dictionaries: name="text", with \\, \" and \xNN.
std::vector<std::string> dictionary(const fs::path& path) {
  std::vector<std::string> words;
  std::istringstream in(read(path));
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find('"'), end = line.rfind('"');
    if (line.starts_with("#") || begin == std::string::npos || end <= begin) continue;
    std::string word;
    for (size_t i = begin + 1; i < end; ++i) {
      if (line[i] != '\\') {
        word += line[i];
      } else if (line[i + 1] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        word += line[++i];
      }
    }
    words.push_back(word);
  }
  return words;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, const std::vector<std::string>& words, uint64_t seed)
      : corpus_(corpus), words_(words), random_(seed) {}

  std::string next() {
    std::string text = random_.element(corpus_);
    for (int64_t edits = random_.between(1, 4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  size_t place(const std::string& text) {
    return static_cast<size_t>(random_.below(static_cast<int64_t>(text.size()) + 1));
  }
  void edit(std::string& text) {
    const size_t at = place(text);
    switch (random_.below(text.empty() ? 2 : 8)) {
      case 0:
        if (!words_.empty()) text.insert(at, random_.element(words_));
        return;
      case 1: {
        const std::string& other = random_.element(corpus_);
        text = text.substr(0, at) + other.substr(place(other));
        return;
      }
      case 2:
        text.resize(at);
        return;
      case 3:
        text.erase(at, static_cast<size_t>(random_.between(1, 8)));
        return;
      case 4:
        text.insert(at, text.substr(place(text), static_cast<size_t>(random_.between(1, 40))));
        return;
      case 5: {  // a number becomes another one
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) return;
        const size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
        text.replace(digit, end - digit,
                     random_.one_of<const char*>({"0", "1", "-1", "16", "255", "65536", "2147483648",
                                                  "9223372036854775807", "18446744073709551616", "1e309", "nan"}));
        return;
      }
      case 6:
        text[at % text.size()] = static_cast<char>(random_.below(256));
        return;
      default:
        text[at % text.size()] = static_cast<char>(text[at % text.size()] ^ (1 << random_.below(8)));
    }
  }

  const std::vector<std::string>& corpus_;
  const std::vector<std::string>& words_;
  Random random_;
};

int main_of(int argc, char** argv) {
  const std::string name = fs::path(argv[0]).filename().string();
  g_crash_file = name + ".input";
  for (const int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(s, on_crash);
  int runs = 0;
  std::vector<std::string> corpus, words;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--runs" && i + 1 < argc) {
      runs = std::atoi(argv[++i]);
    } else if (argument == "--dictionary" && i + 1 < argc) {
      words = dictionary(argv[++i]);
    } else if (fs::is_directory(argument)) {
      std::vector<fs::path> files;
      for (const fs::directory_entry& e : fs::directory_iterator(argument)) files.push_back(e.path());
      std::sort(files.begin(), files.end());
      for (const fs::path& f : files) corpus.push_back(read(f));
    } else {
      corpus.push_back(read(argument));
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no corpus: give files or a folder with some\n", name.c_str());
    return 2;
  }
  run("");
  for (const std::string& input : corpus) run(input);
  uint64_t seed = 0;
  for (const char c : name) seed = seed * 131 + static_cast<unsigned char>(c);
  Mutator mutator(corpus, words, seed);
  for (int i = 0; i < runs; ++i) run(mutator.next());
  std::printf("%s: %zu of the corpus, %d mutations\n", name.c_str(), corpus.size(), runs);
  return 0;
}

}  // namespace
}  // namespace hone::fuzz

int main(int argc, char** argv) { return hone::fuzz::main_of(argc, argv); }
