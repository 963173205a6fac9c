// SPDX-License-Identifier: BSD-2-Clause
// PORT: sends datagrams back, by a DatagramChannel. PORT COUNT: asks COUNT times, by a DatagramSocket, and expects the
// same back.
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.util.Arrays;

public class Echo {
	static void answer(int port) throws Exception {
		DatagramChannel c = DatagramChannel.open();
		ByteBuffer b = ByteBuffer.allocateDirect(65536);

		c.bind(new InetSocketAddress("127.0.0.1", port));
		for (;;) {
			SocketAddress peer = c.receive(b);

			b.flip();
			c.send(b, peer);
			b.clear();
		}
	}

	static void ask(int port, int count) throws Exception {
		DatagramSocket s = new DatagramSocket(0, InetAddress.getByName("127.0.0.1"));
		DatagramPacket in = new DatagramPacket(new byte[2000], 2000);

		s.setSoTimeout(1);
		try {
			s.receive(in);
		} catch (SocketTimeoutException e) {
			s.setSoTimeout(0);
		}
		for (int i = 0; i < count; i++) {
			byte[] data = new byte[1 + i * 7919 % 1400];

			Arrays.fill(data, (byte)i);
			s.send(new DatagramPacket(data, data.length, new InetSocketAddress("127.0.0.1", port)));
			in.setLength(2000);
			s.receive(in);
			if (!Arrays.equals(data, Arrays.copyOf(in.getData(), in.getLength())))
				throw new Exception("message " + i + " is another");
		}
	}

	public static void main(String[] a) throws Exception {
		if (a.length == 1)
			answer(Integer.parseInt(a[0]));
		else
			ask(Integer.parseInt(a[0]), Integer.parseInt(a[1]));
	}
}
