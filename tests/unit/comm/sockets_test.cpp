#include "comm/sockets.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::comm {
namespace {

using std::chrono::milliseconds;

TEST(Sockets, APortInUseIsNamed) {
  const ListeningSocket first = listen_on(std::nullopt);
  ASSERT_GT(first.port, 0);
  try {
    listen_on(first.port);
    FAIL() << "the port was given twice";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("fsdp_port=" + std::to_string(first.port)), std::string::npos)
        << error.what();
  }
}

TEST(Sockets, OwnAddressesCanBeConnectedTo) {
  const ListeningSocket listening = listen_on(std::nullopt);
  EXPECT_EQ(own_addresses().back(), "127.0.0.1");
  EXPECT_TRUE(connect_to("127.0.0.1", listening.port, milliseconds(5000)).is_open());
  EXPECT_TRUE(connect_to("localhost", listening.port, milliseconds(5000)).is_open());
}

TEST(Sockets, NothingListensThere) {
  std::uint16_t port = 0;
  { port = listen_on(std::nullopt).port; }
  EXPECT_FALSE(connect_to("127.0.0.1", port, milliseconds(5000)).is_open());
  EXPECT_FALSE(connect_to("no such host.invalid", port, milliseconds(5000)).is_open());
}

TEST(Sockets, TheFirstAddressThatAcceptsAConnectionIsFound) {
  const ListeningSocket listening = listen_on(std::nullopt, Reach::this_machine);
  EXPECT_EQ(find_reachable({"no such host.invalid", "::1", "127.0.0.1"}, listening.port, milliseconds(5000)),
            "127.0.0.1");
  EXPECT_THROW(find_reachable({"::1"}, listening.port, milliseconds(5000)), UserError);
}

TEST(Sockets, AddressesOfContainersComeLast) {
  EXPECT_TRUE(is_within_machine("docker0", "172.17.0.1"));
  EXPECT_TRUE(is_within_machine("br-1f3a", "172.18.0.1"));
  EXPECT_TRUE(is_within_machine("eth0", "169.254.7.7"));
  EXPECT_FALSE(is_within_machine("eth0", "10.0.0.4"));
  EXPECT_FALSE(is_within_machine("ib0", "192.168.1.4"));
}

}  // namespace
}  // namespace dpo::comm
