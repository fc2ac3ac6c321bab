#include "muster/core/platform/endpoint.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(EndpointTest, ReadsBackWhatItWrites) {
  for (const char* text :
       {"127.0.0.1:41231", "localhost:0", "[::1]:65535", "node-7.cluster:1", "a_b:00080"}) {
    const std::optional<Endpoint> endpoint = ParseEndpoint(text);
    ASSERT_TRUE(endpoint.has_value()) << text;
    EXPECT_EQ(ParseEndpoint(endpoint->ToString())->host, endpoint->host);
    EXPECT_EQ(ParseEndpoint(endpoint->ToString())->port, endpoint->port);
  }
  EXPECT_EQ(ParseEndpoint("[fe80::1]:7")->host, "fe80::1");
  EXPECT_EQ(ParseEndpoint("[fe80::1]:7")->ToString(), "[fe80::1]:7");
}

TEST(EndpointTest, RefusesWhatIsNone) {
  for (const char* text :
       {"",        ":",       "host",          "host:",   ":1",        "host:65536",
        "host:-1", "host:+1", "host: 1",       "host:1 ", "host:1x",   "host:99999999999",
        "::1:5",   "[::1:5",  "::1]:5",        "[]:1",    "[:1",       "[::1]",
        "[::1]5",  "[a]:1",   "[127.0.0.1]:1", "a b:1",   "tcp://a:1", "a/b:1",
        "a\n:1"}) {
    EXPECT_FALSE(ParseEndpoint(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseEndpoint(std::string(256, 'a') + ":1").has_value());
  EXPECT_TRUE(ParseEndpoint(std::string(255, 'a') + ":1").has_value());
}

TEST(EndpointTest, AUnixAddressIsAnAbsolutePathThatTheSystemTakes) {
  EXPECT_EQ(ParseUnixAddress("unix:/tmp/a b/store"), "/tmp/a b/store");
  EXPECT_EQ(ParseUnixAddress(UnixAddress("/tmp/store")), "/tmp/store");
  const std::string longest = "/" + std::string(106, 'x');
  EXPECT_EQ(ParseUnixAddress("unix:" + longest), longest);
  for (const std::string& text :
       {std::string(""), std::string("unix:"), std::string("unix:store"), std::string("/tmp/store"),
        std::string("UNIX:/tmp/store"), "unix:" + longest + "x", std::string("unix:/a\nb"),
        std::string("unix:/a\0b", 9), std::string("127.0.0.1:1")}) {
    EXPECT_FALSE(ParseUnixAddress(text).has_value()) << text;
  }
}

TEST(EndpointTest, KnowsWhatStaysOnThisHostWithoutLookingItUp) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host :
       {"", "0.0.0.0", "::", "10.0.0.1", "node-7", "localhost.cluster", "1270"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(EndpointTest, ANumberIsDigitsWithinItsBound) {
  EXPECT_EQ(ParseDigits("0", 7), 0);
  EXPECT_EQ(ParseDigits("007", 7), 7);
  for (const char* text :
       {"", " ", "8", " 1", "1 ", "+1", "-0", "1.0", "0x1", "18446744073709551617"}) {
    EXPECT_FALSE(ParseDigits(text, 7).has_value()) << text;
  }
}

}  // namespace
}  // namespace muster
