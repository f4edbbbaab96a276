"""A node of ROS 2 that publishes for CORBA programs, and says what comes from them.

It says `ready`; then, for each line `publish N` of its input, that it has published number N of each message, and the octets that ROS
serializes them to: `published N TEXT IMU`; and for each message that comes `got NAME OCTETS`. It ends with its input.
"""

import sys
import threading

import rclpy
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, Vector3
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Imu
from std_msgs.msg import Header, String


def text(number: int) -> String:
    return String(data=f"Hello, world! {number} Grüße")


def imu(number: int) -> Imu:
    # The frame's name is as long as needs no padding behind it, which ROS leaves as its memory was.
    return Imu(
        header=Header(stamp=Time(sec=1_700_000_000 + number, nanosec=5), frame_id="imu_optical"),
        orientation=Quaternion(x=0.0, y=0.5, z=-0.5, w=1.0),
        orientation_covariance=[float(at) for at in range(9)],
        angular_velocity=Vector3(x=0.1, y=0.2, z=0.3),
        angular_velocity_covariance=[-1.0] + [0.0] * 8,
        linear_acceleration=Vector3(x=0.0, y=0.0, z=9.81),
        linear_acceleration_covariance=[float(number)] * 9,
    )


MADE = {"text": (String, text), "imu": (Imu, imu)}


def main() -> None:
    rclpy.init()
    node = Node("campanile_test")
    # Sensors' topics have readers and writers that are not reliable.
    qos = qos_profile_sensor_data if sys.argv[1:] == ["sensors"] else 10
    publishers = {name: node.create_publisher(of, f"{name}_out", qos) for name, (of, _) in MADE.items()}

    def got(name):
        return lambda message: print("got", name, serialize_message(message).hex(), flush=True)

    subscriptions = [node.create_subscription(of, f"{name}_in", got(name), qos) for name, (of, _) in MADE.items()]

    def commands() -> None:
        for line in sys.stdin:
            number = int(line.split()[1])
            made = [(publishers[name], make(number)) for name, (_, make) in MADE.items()]
            for publisher, message in made:
                publisher.publish(message)
            print("published", number, *(serialize_message(message).hex() for _, message in made), flush=True)
        rclpy.shutdown()

    threading.Thread(target=commands, daemon=True).start()
    print("ready", flush=True)
    try:
        rclpy.spin(node)
    except rclpy.executors.ExternalShutdownException:
        pass
    del subscriptions


main()
