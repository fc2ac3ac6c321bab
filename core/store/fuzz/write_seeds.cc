// Writes the seeds of a fuzz target into a folder that is there: one file each.

#include <fstream>
#include <iostream>
#include <string>

#include "muster/core/store/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " FOLDER\n";
    return 2;
  }
  for (const muster::store_fuzz::Seed& seed : muster::store_fuzz::Seeds()) {
    const std::string path = std::string(argv[1]) + "/" + seed.name;
    std::ofstream file(path, std::ios::binary);
    file << seed.bytes;
    if (!file.flush()) {
      std::cerr << "cannot write " << path << "\n";
      return 1;
    }
  }
  return 0;
}
