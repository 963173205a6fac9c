// SPDX-License-Identifier: BSD-2-Clause
// PORT: sends back the bytes of each connection, by one thread with a Selector. PORT COUNT: sends COUNT pieces of up to
// 60,000 bytes over each of two connections, a Socket and a SocketChannel, and expects the same back.
import java.io.DataInputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.Iterator;

public class Stream {
	// What came and has not left yet; nothing more is read meanwhile.
	static void turn(SelectionKey k) throws Exception {
		SocketChannel c = (SocketChannel)k.channel();
		ByteBuffer b = (ByteBuffer)k.attachment();

		if (k.isReadable() && c.read(b) < 0) {
			c.close();
			return;
		}
		b.flip();
		c.write(b);
		k.interestOps(b.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
		b.compact();
	}

	static void answer(int port) throws Exception {
		Selector all = Selector.open();
		ServerSocketChannel l = ServerSocketChannel.open();

		l.bind(new InetSocketAddress("127.0.0.1", port));
		l.configureBlocking(false);
		l.register(all, SelectionKey.OP_ACCEPT);
		for (;;) {
			all.select();
			for (Iterator<SelectionKey> i = all.selectedKeys().iterator(); i.hasNext(); i.remove()) {
				SelectionKey k = i.next();

				if (k.isAcceptable()) {
					SocketChannel c = l.accept();

					c.configureBlocking(false);
					c.register(all, SelectionKey.OP_READ, ByteBuffer.allocateDirect(20000));
				} else {
					turn(k);
				}
			}
		}
	}

	static byte[] piece(int i) {
		byte[] data = new byte[1 + i * 7919 % 60000];

		for (int k = 0; k < data.length; k++)
			data[k] = (byte)(i + k * 5 + k / 256);
		return data;
	}

	static void same(byte[] sent, byte[] got, int number) throws Exception {
		if (!Arrays.equals(sent, got))
			throw new Exception("piece " + number + " is another");
	}

	static void ask(int port, int count) throws Exception {
		Socket s = new Socket("127.0.0.1", port);
		DataInputStream in = new DataInputStream(s.getInputStream());
		OutputStream out = s.getOutputStream();
		SocketChannel c = SocketChannel.open(new InetSocketAddress("127.0.0.1", port));

		for (int i = 0; i < count; i++) {
			byte[] sent = piece(i), got = new byte[sent.length];
			ByteBuffer b = ByteBuffer.wrap(sent);

			out.write(sent);
			in.readFully(got);
			same(sent, got, i);
			while (b.hasRemaining())
				c.write(b);
			b = ByteBuffer.allocateDirect(sent.length);
			while (b.hasRemaining())
				if (c.read(b) < 0)
					throw new Exception("it ended");
			b.flip();
			b.get(got);
			same(sent, got, i);
		}
		s.close();
		c.close();
	}

	public static void main(String[] a) throws Exception {
		if (a.length == 1)
			answer(Integer.parseInt(a[0]));
		else
			ask(Integer.parseInt(a[0]), Integer.parseInt(a[1]));
	}
}
