import java.io.DataInputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;

/**
 * JGroups with SEQUENCER: the first member sequences what everybody sends. Called as program.py says. Where members
 * have stacks of their own, %d in the URL stands for the number of a member: subscribers, then publishers.
 */
class JGroupsSequencer {
  static final int TOPICS = 5, TOPIC_BYTES = 7, PAYLOAD = 100, HEAD = 16, RECORD = HEAD + 8;
  static final long SECOND_NS = 1_000_000_000L, FIRST_NS = 60 * SECOND_NS, IDLE_NS = 10 * SECOND_NS;
  static final long JOIN_NS = 50 * SECOND_NS;

  static final int NOBODY = -1;
  static final int WARM_UP = Integer.getInteger("warm_up", 20_000); // events before it counts, for the compiler

  /** Counts what it hears of the warm-up. */
  static final class Warming extends ReceiverAdapter {
    volatile int heard;

    @Override
    public void receive(Message message) {
      heard++;
    }
  }

  /** What one subscriber has. */
  static final class Row extends ReceiverAdapter {
    final ByteBuffer records;
    volatile int heard;

    Row(int expected) {
      records = ByteBuffer.allocate((2 * expected + 1) * RECORD).order(ByteOrder.LITTLE_ENDIAN);
    }

    @Override
    public void receive(Message message) {
      records.mark().put(message.getRawBuffer(), message.getOffset() + TOPIC_BYTES, HEAD).putLong(System.nanoTime());
      if (records.getInt(records.position() - RECORD + 8) == NOBODY || heard == records.capacity() / RECORD - 1) {
        records.reset();
      } else {
        heard++;
      }
    }
  }

  static JChannel join(String configuration, int member, ReceiverAdapter receiver) throws Exception {
    JChannel channel = new JChannel(configuration.replace("%d", String.valueOf(member)));
    if (receiver != null) channel.setReceiver(receiver);
    channel.connect("bench");
    return channel;
  }

  static void waitForMembers(JChannel channel, int members) {
    long until = System.nanoTime() + JOIN_NS;
    while (channel.getView().size() < members) {
      if (System.nanoTime() > until) throw new IllegalStateException("the group is " + channel.getView());
      LockSupport.parkNanos(1_000_000);
    }
  }

  static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  static void subscribe(String configuration, String folder, int subscribers, int expected) throws Exception {
    Row[] rows = new Row[subscribers];
    JChannel[] channels = new JChannel[subscribers];
    for (int i = 0; i < subscribers; i++) channels[i] = join(configuration, i, rows[i] = new Row(expected));
    for (JChannel channel : channels) waitForMembers(channel, subscribers);
    say("{\"ready\": true}");
    long since = System.nanoTime(), bound = FIRST_NS, before = 0;
    while (System.nanoTime() - since < bound) {
      LockSupport.parkNanos(50_000_000);
      long heard = 0;
      boolean full = true;
      for (Row row : rows) {
        heard += row.heard;
        full &= row.heard >= expected;
      }
      if (full) break;
      if (heard != before) {
        before = heard;
        since = System.nanoTime();
        bound = IDLE_NS;
      }
    }
    for (int i = 0; i < subscribers; i++) {
      try (OutputStream file = Files.newOutputStream(Path.of(folder, "row." + i))) {
        file.write(rows[i].records.array(), 0, rows[i].heard * RECORD);
      }
    }
    say("{\"heard\": true}");
  }

  static byte[] event(byte[] topic, int publisher, int n) {
    byte[] event = new byte[TOPIC_BYTES + PAYLOAD];
    ByteBuffer buffer = ByteBuffer.wrap(event).order(ByteOrder.LITTLE_ENDIAN);
    buffer.put(topic).putLong(System.nanoTime()).putInt(publisher).putInt(n);
    return event;
  }

  static void publish(String configuration, int member, int members, int publisher, int events, long rate)
      throws Exception {
    byte[][] topics = new byte[TOPICS][];
    for (int i = 0; i < TOPICS; i++) topics[i] = ("topic." + i).getBytes(StandardCharsets.US_ASCII);
    Warming warming = new Warming();
    JChannel channel = join(configuration, member, warming);
    waitForMembers(channel, members);
    for (int n = 0; n < WARM_UP; n++) channel.send(new Message(null, null, event(topics[n % TOPICS], NOBODY, n)));
    long until = System.nanoTime() + JOIN_NS;
    while (warming.heard < WARM_UP && System.nanoTime() < until) LockSupport.parkNanos(1_000_000);
    say("{\"ready\": true}");
    DataInputStream word = new DataInputStream(System.in);
    word.read();
    long first = System.nanoTime();
    for (int n = 0; n < events; n++) {
      if (rate > 0) {
        long due = first + n * (SECOND_NS / rate), left;
        while ((left = due - System.nanoTime()) > 0) LockSupport.parkNanos(left);
      }
      channel.send(new Message(null, null, event(topics[n % TOPICS], publisher, n)));
    }
    say("{\"first_ns\": " + first + ", \"last_ns\": " + System.nanoTime() + "}");
    word.read(); // a member until all is heard
  }

  public static void main(String[] words) throws Exception {
    int subscribers = Integer.parseInt(words[3]), publishers = Integer.parseInt(words[4]);
    int events = Integer.parseInt(words[6]);
    if (words[0].equals("subscribe")) {
      subscribe(words[1], words[2], subscribers, events * publishers);
    } else {
      int publisher = Integer.parseInt(words[5]);
      int members = subscribers + publishers;
      publish(words[1], subscribers + publisher, members, publisher, events, Long.parseLong(words[7]));
    }
    System.exit(0);
  }
}
